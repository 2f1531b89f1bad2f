"""Exercises: run the learner's function beside the package's, and name the mistake."""

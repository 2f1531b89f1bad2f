"""Each answers a question of a notebook: `python -m course.experiments.NAME` makes its CSV."""

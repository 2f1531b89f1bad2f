"""The exercises of the notebooks: one file for each notebook, and what judges an answer."""

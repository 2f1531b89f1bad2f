"""Each answers one question of one notebook; `python -m experiments.NAME` makes its CSV again."""

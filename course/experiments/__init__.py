"""Each answers a question of a notebook; data/README.md has the command that makes its CSV."""

"""BERT, taught by building it."""

"""Studies: each makes the rows of one result, or draws them."""

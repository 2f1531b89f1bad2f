"""How results are recorded and drawn, and what may be said of them."""

"""How good is it: scores, what counting words reaches, and the public benchmarks of the paper."""

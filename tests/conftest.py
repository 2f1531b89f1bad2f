"""For all tests."""

import torch

# Tensors are small here: a second thread would mostly wait, and on a busy machine for long.
torch.set_num_threads(1)

"""The device to compute on, and whether it is fast with 16 bits."""

import time
from functools import cache

import torch
from torch.nn import functional as F


def default_device() -> torch.device:
    """CUDA, else Apple's MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def has_fast_bfloat16(device: torch.device) -> bool:
    """Say whether bfloat16 products are faster than float32 ones here."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        known = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return known and _layer_seconds(True) < 0.9 * _layer_seconds(False)
    return False


@cache
def _layer_seconds(bfloat16: bool) -> float:
    """Time a feed-forward layer there and back: a CPU may know the instructions, and be slow."""
    weight, x = (torch.ones(n, 256, requires_grad=True) for n in (1024, 512))  # nobody's dice
    times = []
    for _ in range(6):
        began = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            y = F.linear(x, weight)
        torch.autograd.grad(y, (x, weight), y.detach())
        times.append(time.perf_counter() - began)
    return min(times)

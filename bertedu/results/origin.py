"""Where a row of results comes from: the commit, the machine, the device."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from bertedu.results.files import Row


def current_commit() -> str | None:
    """Return the commit of the code, with "+" if files were changed since; None outside git."""
    here = Path(__file__).parent
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"], cwd=here, capture_output=True, text=True
        )
    except OSError:
        return None
    return described.stdout.strip() or None


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Name the hardware and software of a run, for the record beside its numbers."""
    name = torch.cpu.get_capabilities().get("cpu_name") if platform.system() == "Linux" else None
    if device.type == "cuda":
        name = torch.cuda.get_device_name()
    return {
        "device": device.type,
        "hardware": str(name or platform.processor() or platform.machine()),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def origin(device: torch.device | None = None) -> Row:
    """Return where a row comes from, as columns: the device (none: the CPU) and the commit."""
    machine = describe_machine(device or torch.device("cpu"))
    return {
        "device": f"{machine['device']} {machine['hardware']}",
        "commit": current_commit() or "",
    }

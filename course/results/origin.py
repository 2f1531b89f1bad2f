"""Where a row of results comes from: the machine and the commit."""

import torch

from bertedu.files import Row
from bertedu.machine import current_commit, describe_machine


def origin(device: torch.device | None = None) -> Row:
    """Return where a row comes from, as columns: the device (none: the CPU) and the commit."""
    machine = describe_machine(device or torch.device("cpu"))
    return made(machine | {"commit": current_commit()})


def made(record: Row) -> Row:
    """Say where a recorded run comes from, in the same columns."""
    commit = record["commit"] or ""
    return {"device": f"{record['device']} {record['hardware']}", "commit": commit}

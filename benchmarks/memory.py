"""How much memory a pre-training step takes at its peak, each side in a process of its own."""

import json
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from safetensors.torch import load_file, save_file

from benchmarks.sides import Setting, make_model, training_step
from bertedu.model.config import BertConfig
from bertedu.pretraining.batches import Batch

STEPS = 3


def can_measure() -> bool:
    """Say whether this system tells a process its peak memory; Windows does not."""
    return platform.system() != "Windows"


def peak_of_this_process() -> float:
    """Return the most memory this process has had resident so far, in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage: on Linux its peak is inherited from the process that started this one.
        lines = status.read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # macOS counts bytes


def peak_of_step(config: BertConfig, setting: Setting, batch: Batch, folder: Path) -> float:
    """Run a few steps in a fresh process; return its peak over that after the imports, in MB.

    Weights, gradients, both Adam averages and activations are in it; Python and libraries are not.

    Raises
    ------
    RuntimeError
        The process failed; the message holds what it printed.

    """
    save_file(vars(batch), folder / "batch.safetensors")
    task = json.dumps({"config": asdict(config), "setting": asdict(setting)})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", str(folder / "batch.safetensors"), task],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    if done.returncode:
        raise RuntimeError(f"measuring memory ({setting}) failed:\n{done.stderr.strip()}")
    return float(done.stdout.split()[-1])


def main(batch_file: str, task: str) -> None:
    """Measure in this process, and print the answer."""
    values = json.loads(task)
    batch = Batch(**load_file(batch_file))
    before = peak_of_this_process()
    setting = Setting(**values["setting"])
    model = make_model(BertConfig(**values["config"]), setting)
    step = training_step(model, [batch], setting.bfloat16)
    for _ in range(STEPS):
        step()
    print(peak_of_this_process() - before)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""How many CPU threads PyTorch may use: one, unless somebody asks for more."""

import os
import sys


def use_one_thread() -> None:
    """Let PyTorch compute on one thread, as `import bertedu` does; OMP_NUM_THREADS overrules it.

    The models here are small. A second thread shortens a step of theirs little, and where another
    program needs the second core, a browser is enough, each of the many small products waits for
    it: what takes seconds then takes minutes. `torch.set_num_threads` changes it at any time.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    else:  # PyTorch reads this when it is imported, which `bertedu --help` need not wait for
        os.environ["OMP_NUM_THREADS"] = "1"

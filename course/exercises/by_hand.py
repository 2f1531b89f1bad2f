"""Exercises whose point is to do without a function that PyTorch has ready."""

from dataclasses import dataclass
from typing import Any

from torch.overrides import TorchFunctionMode

from course.exercises.judge import Exercise, judge, report


class Without(TorchFunctionMode):
    """PyTorch, but a function whose name holds one of these words raises an error."""

    def __init__(self, words: tuple[str, ...]) -> None:
        """Take the words."""
        super().__init__()
        self.words = words

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, unless it is a forbidden one."""
        if any(word in getattr(func, "__name__", "") for word in self.words):
            raise RuntimeError
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ByHand(Exercise):
    """An exercise in which a ready-made function is no solution, however right its answers."""

    without: tuple[str, ...]  # words in the names of the functions that are forbidden
    ready_made: str  # what it did, such as: PyTorch's layer norm did the work
    instead: str  # how to begin by hand

    def verdict(self, function: object) -> str:
        """Refuse what is right only with the ready-made function; else as of any exercise."""
        said = judge(self, function)
        if said.startswith("✓"):
            with Without(self.without):
                needed = judge(self, function) != said
            if needed:
                likely = f"the exercise is to do without it. {self.instead}"
                return report(f"✗ {self.name}: right, but {self.ready_made}.", likely=likely)
        return said

"""Exercises: run the learner's function beside the package's, and name the mistake."""

from bertedu.check import masked_language_model, start_here
from bertedu.check.exercise import show_solution
from bertedu.check.masked_language_model import accuracy, loss_test, masking, mlm_loss, unigram_loss
from bertedu.check.start_here import chance, top_words, which_can_see

__all__ = [
    "accuracy",
    "chance",
    "loss_test",
    "masking",
    "mlm_loss",
    "solution",
    "top_words",
    "unigram_loss",
    "which_can_see",
]


def solution(name: str) -> None:
    """Print the package's own source of what an exercise asks for: the package is the answer book.

    An unknown name prints the names of all exercises.
    """
    print(show_solution(start_here.SOLUTIONS + masked_language_model.SOLUTIONS, name))

"""Sentences with their entities marked: the type is written beside the words, not only colored."""

import html
from collections.abc import Sequence

from bertedu.analysis.views import BLUE, GREEN, ORANGE
from bertedu.finetuning.examples import Tagged
from bertedu.finetuning.tagging import entities
from course.language import paragraph
from course.workshop.widgets import Playable, show_one

# a color and a line under the words, so that types differ in black and white, too
_LOOKS = ((BLUE, "solid"), (ORANGE, "dashed"), (GREEN, "double"), ("#555555", "dotted"))


class TaggedText:
    """Words and their tags. A notebook shows them marked; plain text has them in brackets.

    Raises ValueError if there are more words than tags, or fewer.
    """

    def __init__(self, words: Sequence[str], tags: Sequence[str], types: Sequence[str]) -> None:
        """``types`` are all types of the task, so that each keeps its look."""
        if len(words) != len(tags):
            raise ValueError(f"{len(words)} words and {len(tags)} tags do not match")
        self.words, self.tags, self.types = tuple(words), tuple(tags), tuple(types)

    def parts(self) -> list[tuple[str, str]]:
        """Return (words, type) in order; the type of what is no entity is ""."""
        parts, at = [], 0
        for kind, start, end in sorted(entities(self.tags), key=lambda span: span[1]):
            parts += [(word, "") for word in self.words[at:start]]
            parts.append((" ".join(self.words[start:end]), kind))
            at = end
        return parts + [(word, "") for word in self.words[at:]]

    def __repr__(self) -> str:
        """Return the sentence with entities in brackets, as [Lake Vättern PLACE]."""
        return " ".join(f"[{text} {kind}]" if kind else text for text, kind in self.parts())

    def _repr_html_(self) -> str:
        marked = " ".join(self._marked(text, kind) for text, kind in self.parts())
        return f"<p style='font-size:115%;line-height:2.2'>{marked}</p>"

    def _marked(self, text: str, kind: str) -> str:
        if not kind:
            return html.escape(text)
        looks = dict(zip(self.types, _LOOKS, strict=False))
        color, line = looks.get(kind, _LOOKS[-1])
        return (
            f"<mark style='background:{color}22;color:inherit;padding:2px 4px;"
            f"border-bottom:4px {line} {color}'>{html.escape(text)} "
            f"<b style='font-size:70%'>{html.escape(kind)}</b></mark>"
        )


def tag_examples(
    examples: Sequence[Tagged], answers: Sequence[Sequence[str]], types: Sequence[str]
) -> Playable:
    """Return a button that shows the next example each time: as marked, and as answered.

    Raises ValueError if there is nothing to show, or an example has no answer.
    """
    if not examples or len(examples) != len(answers):
        raise ValueError(
            f"{len(examples)} examples and {len(answers)} answers: give as many of each"
        )

    def page(number: int) -> str:
        words, tags = examples[number].words, (examples[number].tags, answers[number])
        truth, said = (TaggedText(words, t, types)._repr_html_() for t in tags)
        head = paragraph(f"{number + 1} of {len(examples)}. Marked in the data:")
        return head + truth + paragraph("The model says:") + said

    return show_one(page, range(len(examples)))

"""Sentences with their entities marked: the type is written beside the words, not only colored."""

import html
from collections.abc import Callable, Sequence

import ipywidgets as widgets

from bertedu.analysis.views import BLUE, GREEN, ORANGE
from bertedu.finetuning.examples import Tagged
from bertedu.finetuning.tagging import entities

# a color and a line under the words, so that types differ in black and white, too
_LOOKS = ((BLUE, "solid"), (ORANGE, "dashed"), (GREEN, "double"), ("#555555", "dotted"))


class TaggedText:
    """Words and their tags. A notebook shows them marked; plain text has them in brackets.

    Raises
    ------
    ValueError
        There are more words than tags, or fewer.

    """

    def __init__(self, words: Sequence[str], tags: Sequence[str], types: Sequence[str]) -> None:
        """``types`` are all types of the task, so that each keeps its look."""
        if len(words) != len(tags):
            raise ValueError(f"{len(words)} words and {len(tags)} tags do not match")
        self.words, self.tags, self.types = tuple(words), tuple(tags), tuple(types)

    def parts(self) -> list[tuple[str, str]]:
        """Return (words, type) in order; the type of what is no entity is ""."""
        found, at = [], 0
        for kind, start, end in sorted(entities(self.tags), key=lambda span: span[1]):
            found += [(word, "") for word in self.words[at:start]]
            found.append((" ".join(self.words[start:end]), kind))
            at = end
        return found + [(word, "") for word in self.words[at:]]

    def __repr__(self) -> str:
        """Return the sentence with entities in brackets, as [Lake Vättern PLACE]."""
        return " ".join(f"[{text} {kind}]" if kind else text for text, kind in self.parts())

    def _repr_html_(self) -> str:
        return (
            "<p style='font-size:115%;line-height:2.2'>"
            + " ".join(self._marked(text, kind) for text, kind in self.parts())
            + "</p>"
        )

    def _marked(self, text: str, kind: str) -> str:
        if not kind:
            return html.escape(text)
        place = self.types.index(kind) if kind in self.types else len(_LOOKS) - 1
        color, line = _LOOKS[min(place, len(_LOOKS) - 1)]
        return (
            f"<mark style='background:{color}22;color:inherit;padding:2px 4px;"
            f"border-bottom:4px {line} {color}'>{html.escape(text)} "
            f"<b style='font-size:70%'>{html.escape(kind)}</b></mark>"
        )


def tag_box(
    ask: Callable[[str], TaggedText], text: str, description: str = "Sentence:"
) -> widgets.VBox:
    """Return a text field; press Enter, and the sentence appears below it with its entities."""
    field = widgets.Text(
        value=text,
        continuous_update=False,
        description=description,
        layout=widgets.Layout(width="95%"),
    )
    answer = widgets.HTML()

    def show(_: object = None) -> None:
        try:
            answer.value = ask(field.value)._repr_html_()
        except ValueError as error:
            answer.value = f"<p>{html.escape(str(error))}</p>"

    field.observe(show, names="value")
    show()
    return widgets.VBox([field, answer])


def tag_examples(
    examples: Sequence[Tagged],
    answers: Sequence[Sequence[str]],
    types: Sequence[str],
) -> widgets.VBox:
    """Return a button that shows the next example each time: as marked, and as answered.

    Nothing is on the page before the first click, so no text of others is saved with a notebook.

    Raises
    ------
    ValueError
        There is nothing to show, or an example has no answer.

    """
    if not examples or len(examples) != len(answers):
        raise ValueError(
            f"{len(examples)} examples and {len(answers)} answers: give as many of each"
        )
    button = widgets.Button(description="Show one")
    shown, state = widgets.HTML(), {"at": -1}

    def show(_: object = None) -> None:
        state["at"] = (state["at"] + 1) % len(examples)
        example, tags = examples[state["at"]], answers[state["at"]]
        truth, said = (TaggedText(example.words, t, types) for t in (example.tags, tags))
        shown.value = (
            f"<p>{state['at'] + 1} of {len(examples)}. Marked in the data:</p>"
            f"{truth._repr_html_()}<p>The model says:</p>{said._repr_html_()}"
        )

    button.on_click(show)
    return widgets.VBox([button, shown])

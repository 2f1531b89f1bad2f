"""Grammar at a blank: of two words, which stood here, and who can tell?

*A* or *an*: the next word tells. *Is* or *are*: the subject does, and it stands before. At real
held-out places where one of two words stood, each as often as the other, a reader is asked which
is the likelier. No fine-tuning, and a coin is right half of the time. Which side tells was written
down by a rule of grammar before these readers were asked (others had tried ten of the pairs).

``python -m course.experiments.grammar`` asks every reader that can be found and has not been asked,
and writes what it said at each place to ``grammar_odds.csv``, and the two tables of notebook 13.
How far away the telling word is, the committed reader of both sides says (one run): of the side
that tells it is shown the nearest words only, in ``grammar_reach.csv``.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch

from bertedu.files import Row, read_csv, table_beside, write_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, find_checkpoint, load_checkpoint
from bertedu.pretraining.batches import load_splits
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.text.fast_tokenizer import load_vocabulary
from course.experiments.ablations import AT_A_BLANK, SEEDS
from course.experiments.counting import UnigramModel
from course.experiments.same_question import BOTH, LEFT, LONGEST, PAIR, RIGHT, hide
from course.results.bootstrap import BootstrapScores, Floats, Ints, common_spread, drawn_means
from course.results.columns import estimate_columns
from course.results.study import Run, grid, study

PER_WORD = 150  # places of each word
# pair of words -> the side that tells, and how many of its words are enough: both were predicted
_PAIRS = table_beside(__file__)
TELLS: dict[str, str] = {pair: row["tells"] for pair, row in _PAIRS.items()}
ENOUGH: dict[str, int] = {pair: row["enough"] for pair, row in _PAIRS.items() if "enough" in row}
SHOWN = (0, 1, 2, 3, 5, 8)  # words of the telling side
ALL = "all"


@dataclass(frozen=True)
class Positions:
    """Where one of two words stood, one place at a time, without `[CLS]`; `which` is 0 or 1."""

    sentences: list[Sequence[int]]
    places: Ints
    which: Ints
    documents: Ints


def find_positions(documents: Sequence[EncodedDocument], words: tuple[int, int]) -> Positions:
    """Draw as many places of the first word as of the second, at most `PER_WORD` of each.

    Every document gives one before any gives two: places of one document are not independent.
    """
    rng = np.random.default_rng(words)
    where: tuple[list[tuple[Sequence[int], int, int]], ...] = ([], [])
    for number, document in enumerate(documents):
        for sentence in document.sentences:
            for place, word in enumerate(sentence):
                if word in words and len(sentence) <= LONGEST:
                    where[words.index(word)].append((sentence, place, number))
    count = min(PER_WORD, *map(len, where))
    chosen = []
    for some in where:
        drawn, met = rng.permutation(len(some)).tolist(), Counter[int]()
        turns = {i: met.update([some[i][2]]) or met[some[i][2]] for i in drawn}  # of its document
        chosen += [some[i] for i in sorted(drawn, key=turns.__getitem__)[:count]]
    sentences, places, numbers = zip(*chosen, strict=True)
    which = np.repeat([0, 1], count)
    return Positions(list(sentences), np.array(places), which, np.array(numbers))


def cut(found: Positions, tells: str, words: int) -> Positions:
    """Leave so many words of the side that tells, the nearest ones; the other side stays whole."""
    begins = [not piece.startswith("##") for piece in load_vocabulary()]
    sentences, places = [], []
    for sentence, place in zip(found.sentences, found.places.tolist(), strict=True):
        starts = [at for at, piece in enumerate(sentence) if begins[piece]]
        to_left = [at for at in starts if at <= place]
        to_right = [at for at in starts if at > place]
        first = to_left[-1 - words] if tells == "left" and words < len(to_left) else 0
        end = to_right[words] if tells == "right" and words < len(to_right) else None
        sentences.append(sentence[first:end])
        places.append(place - first)
    return replace(found, sentences=sentences, places=np.array(places))


@torch.inference_mode()
def odds_at(model: BertForPreTraining, found: Positions, words: tuple[int, int]) -> Floats:
    """Return how much likelier the second word is than the first at each place: log odds (n,)."""
    odds = np.zeros(len(found.sentences))
    for group, ids, blank, _ in hide(found.sentences, found.places):
        scores = model(ids, selected=blank)[0]  # (n, V)
        odds[group] = (scores[:, words[1]] - scores[:, words[0]]).double().numpy()
    return odds


def _packed(values: Floats | Ints) -> str:
    return " ".join(f"{value:.6g}" for value in values.round(2).tolist())


@cache
def _texts() -> tuple[list[EncodedDocument], torch.Tensor]:
    """Held-out documents, and the log share of each word in training, (V,)."""
    splits = load_splits(say=lambda _: None)
    prior = UnigramModel(splits["train"], len(load_vocabulary())).log_probabilities
    return [*splits["dev"], *splits["test"]], prior


@cache
def _places(pair: str) -> tuple[tuple[int, int], Positions]:
    one, other = (load_vocabulary().index(word) for word in pair.split("/"))
    return (one, other), find_positions(_texts()[0], (one, other))


def about(pair: str, reader: str, seed: str) -> list[Row]:
    """Say of a pair's places which word stood there and in what document, and the prior odds."""
    (one, other), found = _places(pair)
    if reader == "(prior)":
        prior = _texts()[1]
        return [{"odds": f"{float(prior[other] - prior[one]):.4f}"}]
    return [{"odds": _packed(found.which if reader == "(which)" else found.documents)}]


def ask(pair: str, reader: str, seed: int) -> list[Row]:
    """Ask a run for its odds at a pair's places."""
    words, found = _places(pair)
    model = load_checkpoint(find_checkpoint(AT_A_BLANK[reader][seed]))
    return [{"odds": _packed(odds_at(model, found, words))}]


def reach(pair: str) -> list[Row]:
    """Ask the committed reader of both sides at a pair's places, shown more and more words."""
    (words, found), model = _places(pair), load_checkpoint(find_checkpoint("no-nsp-L4H128"))

    def right(shown: Positions) -> BootstrapScores:
        of_each = 100.0 * ((odds_at(model, shown, words) > 0) == (found.which == 1))
        return BootstrapScores(drawn_means(of_each[None], found.documents))

    rows: list[Row] = [{"words": ALL, "right": f"{(whole := right(found)).mean:.2f}"}]
    for count in SHOWN:
        scores = right(cut(found, TELLS[pair], count))
        row: Row = {"words": count, "right": f"{scores.mean:.2f}"}
        rows.append(row | estimate_columns("lacks", (whole - scores).estimate()))
    return rows


def finished(reader: str, seed: int) -> bool:
    """Whether a run can be found, and has come to its end."""
    try:
        folder = find_checkpoint(AT_A_BLANK[reader][seed])
    except CheckpointError:
        return False
    return (folder / "model.safetensors").exists()


def plan() -> list[Run]:
    """Return the questions to every reader that can be found."""
    runs = grid(about, pair=TELLS, reader=("(which)", "(document)", "(prior)"), seed=[""])
    asked = grid(ask, pair=TELLS, reader=AT_A_BLANK, seed=SEEDS)
    return runs + [one for one in asked if finished(one[0]["reader"], one[0]["seed"])]


def answers_of(rows: Sequence[Row], pair: str) -> tuple[dict[str, Floats], Ints]:
    """Return reader -> right (runs, n), and the document of each place of a pair (n,).

    Left and right of one seed are joined as in `same_question`.
    """
    said = {
        (row["reader"], row["seed"]): np.array([float(x) for x in str(row["odds"]).split()])
        for row in rows
        if row["pair"] == pair
    }
    which, prior = said["(which)", ""], said["(prior)", ""].item()
    odds = {reader: [said[k] for k in sorted(said) if k[0] == reader] for reader in AT_A_BLANK}
    both = [seed for reader, seed in said if reader == LEFT and (RIGHT, seed) in said]
    odds[PAIR] = [said[LEFT, seed] + said[RIGHT, seed] - prior for seed in sorted(both)]
    right = {
        reader: np.array([(values > 0) == (which == 1) for values in runs], float)
        for reader, runs in odds.items()
        if runs
    }
    return right, said["(document)", ""].astype(int)


def score_rows(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each pair, reader and run: the share of places where it was right."""
    scored: list[Row] = []
    for pair, tells in TELLS.items():
        readers, documents = answers_of(rows, pair)
        for reader, runs in readers.items():
            for seed, right in enumerate(runs):
                row: Row = {"pair": pair, "tells": tells, "reader": reader, "seed": seed}
                row |= {"places": len(right), "documents": len(set(documents.tolist()))}
                scored.append(row | {"right": round(float(right.mean()), 4)})
    return scored


def difference_rows(rows: Sequence[Row]) -> list[Row]:
    """Return how much oftener one reader is right than another at the same places, in points.

    The interval holds for other documents and other runs of pre-training.
    """
    compared: list[Row] = []
    for pair, tells in TELLS.items():
        right, documents = answers_of(rows, pair)
        drawn = {n: BootstrapScores(drawn_means(100 * r, documents)) for n, r in right.items()}
        spread = common_spread(of for name, of in drawn.items() if name != PAIR)
        if not spread:
            continue  # nothing is known yet of the spread between runs
        for one, other in ((BOTH, LEFT), (RIGHT, LEFT), (BOTH, PAIR)):
            if one in drawn and other in drawn:
                row: Row = {"pair": pair, "tells": tells, "one": one, "other": other}
                found = drawn[one].minus(drawn[other], spread)
                compared.append(row | estimate_columns("points", found))
    return compared


def write_tables(folder: Path) -> None:
    """Write what follows from the odds."""
    rows = read_csv(folder / "grammar_odds.csv")
    write_csv(folder / "grammar.csv", score_rows(rows))
    write_csv(folder / "grammar_differences.csv", difference_rows(rows))


if __name__ == "__main__":
    study(write_tables, grammar_odds=plan(), grammar_reach=grid(reach, pair=ENOUGH))

"""Titles and capitals: what is hidden and what is asked; arms differ in one thing."""

import pytest
import torch

from bertedu.finetuning.collation import NO_TARGET
from bertedu.finetuning.examples import Tagged, Task
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.heads import TaggingHead
from bertedu.text.corpus import Document
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SEP_ID
from course.experiments import names
from course.experiments.names import (
    ARMS,
    CAPITALS,
    LENGTH,
    SINGLE,
    TOKENIZER,
    UNTRAINED,
    WHOLE,
    capital_accuracy,
    capitals,
    hide,
    loss_of,
    phrases,
    windows,
)
from course.experiments.tag_placement import look_up
from course.experiments.toy_readers import drawn

TEXT = '"Paris met Zanzibar\'s Émile in the 1990s. NASA said so."'  # two sentences, and quotes
TITLES = {("new", "york", "city"), ("new", "york")}
LONG = [Document("b", "", "The mayor of New York City met Ann in New York. " * 200)]
ROWS = windows(LONG, TITLES)
THE, YORK, CITY = map(TOKENIZER.token_to_id, ("the", "york", "city"))


def encode(text: str) -> names.Encoding:
    return TOKENIZER.encode(text, add_special_tokens=False)


def dice(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_capital_is_asked_of_the_first_piece_of_a_word_and_of_no_first_word() -> None:
    encoding = encode(TEXT)
    asked = capitals(encoding, TEXT, [0, TEXT.index("NASA")])
    pieces = zip(encoding.tokens, encoding.offsets, asked, strict=True)
    told = [(token, start, value) for token, (start, _), value in pieces if value != NO_TARGET]
    assert not any(token.startswith("##") for token, *_ in told)
    # neither Paris nor NASA, which begin sentences; of "Zanzibar's" also the s
    assert {TEXT[start:].split()[0].strip('".'): value for _, start, value in told} == {
        **dict.fromkeys(("met", "s", "in", "the", "said", "so"), 0),
        **dict.fromkeys(("Zanzibar's", "Émile"), 1),
    }
    # with one sentence instead of two, NASA is asked
    assert sum(value == 1 for value in capitals(encoding, TEXT, [0])) == 3
    for pieces_of, text in ((" " + TEXT, TEXT), (TEXT, " " + TEXT)):
        with pytest.raises(ValueError, match="stands"):
            capitals(encode(pieces_of), text, [0])


def test_a_title_is_one_phrase_the_longest_first_and_so_is_a_word() -> None:
    encoding = encode("Old New York City and New York are newcomers, yorkshiremen")
    groups: dict[int, list[str]] = {}
    for token, place in zip(encoding.tokens, phrases(encoding, TITLES), strict=True):
        groups.setdefault(place, []).append(token)
    whole = ["".join(some).replace("##", "") for some in groups.values()]
    assert whole == "old newyorkcity and newyork are newcomers , yorkshiremen".split()
    assert phrases(encoding, set())[1:4] == [1, 2, 3]


def test_rows_hold_each_piece_once_and_phrases_begin_in_their_row() -> None:
    text = "The city of New York City is here. " * 30
    rows = windows([Document("a", "encyclopedia", text), Document("b", "b", "Short.")], TITLES)
    ids, first, capital = rows
    assert ids.shape[1] == LENGTH
    inside = (ids != PAD_ID) & (ids != CLS_ID) & (ids != SEP_ID)
    assert ids[:-1][inside[:-1]].tolist() == encode(text).ids
    assert (first <= torch.arange(LENGTH)).all()
    assert (first[inside] > 0).all()  # never `[CLS]`
    assert (capital[~inside] == NO_TARGET).all()
    assert capital[ids == THE].tolist() == [NO_TARGET] * 30  # begins each sentence
    assert (capital[ids == YORK] == 1).all()
    before = ids.roll(1, dims=1)  # "new", or `[CLS]` where a title is cut
    for row, place in (ids == YORK).nonzero().tolist():
        assert first[row, place] == place - (before[row, place] != CLS_ID).int()


def test_titles_are_hidden_whole_and_other_arms_hide_the_same_pieces() -> None:
    hidden = {arm: hide(ROWS, arm, dice(1)) for arm in ARMS}
    for arm in (SINGLE, CAPITALS):
        assert torch.equal(hidden[arm][0], hidden[UNTRAINED][0])
    row, place = (ROWS[0].eq(YORK) & ROWS[0].roll(-1, 1).eq(CITY)).nonzero().T
    keep = (place > 1) & (place < LENGTH - 2)
    for arm in (SINGLE, WHOLE):
        ids, selected = hidden[arm]
        three = torch.stack([selected[row[keep], place[keep] + at] for at in (-1, 0, 1)])
        assert (three.sum(0) % 3 == 0).all() == (arm == WHOLE)
        assert selected[ROWS[0] > 4].float().mean() == pytest.approx(names.RATE, abs=0.03)
        assert (ids[selected] == MASK_ID).all()


@pytest.fixture
def model() -> BertForPreTraining:
    torch.manual_seed(0)
    sizes = (TOKENIZER.get_vocab_size(), 16, 1, 2, 32, LENGTH, 2, 0.0)
    model = BertForPreTraining(BertConfig(*sizes, initializer_range=0.4))
    model.nsp = TaggingHead(16, 2)
    return model


def test_the_second_task_adds_to_the_loss_and_changes_nothing_else(
    model: BertForPreTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[torch.Tensor] = []
    before = model.bert.forward
    monkeypatch.setattr(
        model.bert, "forward", lambda ids, **given: read.append(ids) or before(ids, **given)
    )
    alone, both, whole = (loss_of(model, ROWS, arm, dice()) for arm in (SINGLE, CAPITALS, WHOLE))
    assert torch.equal(read[0], read[1])
    seen = (read[0] != MASK_ID) & (read[2] != MASK_ID)
    assert torch.equal(read[0][seen], read[2][seen])  # the same rows, other holes
    assert not torch.equal(read[0], read[2])
    assert both > alone
    assert whole > 0
    (both - alone).backward()
    assert model.nsp.classifier.weight.grad.abs().sum() > 0


def test_the_loss_is_that_of_the_hidden_pieces_of_the_rows_drawn(model: BertForPreTraining) -> None:
    rows = windows([Document("a", "", "Ann met a man."), *LONG], TITLES)
    chosen = drawn(torch.arange(rows.shape[1]), again := dice())
    assert (rows[0, chosen] == PAD_ID).any()
    hidden, selected = hide(rows[:, chosen], SINGLE, again)
    scores, _ = model.eval()(hidden, padding_mask=rows[0, chosen] != PAD_ID, selected=selected)
    expected = torch.nn.functional.cross_entropy(scores, rows[0, chosen][selected])
    assert loss_of(model, rows, SINGLE, dice()).item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_head_is_scored_on_what_is_asked(model: BertForPreTraining) -> None:
    torch.nn.init.zeros_(model.nsp.classifier.weight)
    found = {}
    for says in (0, 1):
        model.nsp.classifier.bias.data = torch.eye(2)[says]
        found[says] = capital_accuracy(model, ROWS)
    usual = found[0]["capitals, always lower case"]
    assert usual == pytest.approx((ROWS[2][ROWS[2] != NO_TARGET] == 0).float().mean().item())
    parts = [f"capitals, {name}" for name in ("visible", "hidden")]
    assert min(found[0][part] for part in parts) <= usual <= max(found[0][part] for part in parts)
    for part in parts:
        assert found[1][part] == pytest.approx(1 - found[0][part])


def test_who_marks_what_training_marked_finds_known_names_and_no_new_ones(
    model: BertForPreTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tagged(text: str, *places: int) -> Tagged:
        tags = ["B-PLACE" if number in places else "O" for number in range(len(text.split()))]
        return Tagged(tuple(text.split()), tuple(tags))

    train = [tagged("in Lyon", 1), tagged("Paris", 0)]  # the second is not among the `FEW`
    test = [tagged("Lyon and Nairobi", 0, 2), tagged("to Paris", 1), tagged("no place")]
    task = Task("entities", "tagging", "", ("O", "B-PLACE", "I-PLACE"), "f1", dict)
    splits = {"train": train, "dev": train, "test": test}
    monkeypatch.setattr(names, "load_task", lambda _: (task, splits))
    monkeypatch.setattr(names, "FEW", 1)
    monkeypatch.setattr(names, "finetune", lambda *_: None)
    # one of the two new names, and two that are none
    marks = [train[0], tagged("Paris no place", 0, 1, 2)]
    for knows, new, f1 in ((train[:1], 0, 2 / 4), (marks, 1 / 2, 4 / 7)):
        monkeypatch.setattr(
            names.Tagging, "answers", lambda _, some, *__, k=knows: look_up(k, some)
        )
        scores = names.tagged(model.bert, 0)
        assert scores == {"F1": pytest.approx(f1), "known names": 1, "new names": new}


def test_a_model_is_trained_on_training_articles_and_capitals_are_scored_on_others(
    model: BertForPreTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = {"train": ROWS, "dev": ROWS[:, :5]}
    seen: list[tuple[str, object]] = []
    monkeypatch.setattr(names, "load_checkpoint", lambda _: model)
    monkeypatch.setattr(names, "read", of.__getitem__)  # fails for test articles
    monkeypatch.setattr(names, "train", lambda _, loss, *__: seen.append(("train", loss.args[1])))
    monkeypatch.setattr(names, "tagged", lambda bert, seed: dict.fromkeys(names.MEASURES, seed))
    monkeypatch.setattr(names, "capital_accuracy", lambda _, text: seen.append(("dev", text)) or {})
    for arm in ARMS:
        values = [row["value"] for row in names.run(arm, 2)]
        assert values == [7] * 3, "seeds 6, 7 and 8: no other run has them"
    assert [split for split, _ in seen] == ["train", "train", "train", "dev"]
    assert all(text is of[split] for split, text in seen)

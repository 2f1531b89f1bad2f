"""Titles and capitals: what is hidden and what is asked; arms differ in one thing; the runs."""

import pytest
import torch

from bertedu.files import read_csv
from bertedu.finetuning.collation import NO_TARGET
from bertedu.finetuning.examples import Tagged, Task
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.heads import TaggingHead
from bertedu.text.corpus import Document
from bertedu.text.sources import shipped
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SEP_ID
from course.experiments import names
from course.experiments.names import (
    ARMS,
    CAPITALS,
    LENGTH,
    SINGLE,
    TOKENIZER,
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


def encode(text: str) -> names.Encoding:
    return TOKENIZER.encode(text, add_special_tokens=False)


def dice(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_capital_is_asked_of_the_first_piece_of_a_word_and_of_no_first_word() -> None:
    encoding = encode(TEXT)
    asked = capitals(encoding, TEXT, [0, TEXT.index("NASA")])
    assert any(token.startswith("##") for token in encoding.tokens)
    told = {
        TEXT[encoding.offsets[place][0] :].split()[0].strip('".'): value
        for place, value in enumerate(asked)
        if value != NO_TARGET
    }
    # neither Paris nor NASA, which begin sentences; of "Zanzibar's" also the s
    expected = {"met": 0, "Zanzibar's": 1, "s": 0, "Émile": 1, "in": 0, "the": 0}
    assert told == expected | {"said": 0, "so": 0}
    for token, value in zip(encoding.tokens, asked, strict=True):
        assert value == NO_TARGET or not token.startswith("##")
    # with one sentence instead of two, NASA is asked
    assert sum(value == 1 for value in capitals(encoding, TEXT, [0])) == 3


def test_pieces_of_another_text_are_refused() -> None:
    moved = " " + TEXT
    with pytest.raises(ValueError, match="stands"):
        capitals(encode(moved), TEXT, [0])
    with pytest.raises(ValueError, match="stands"):
        capitals(encode(TEXT), moved, [0])


def test_a_title_is_one_phrase_the_longest_first_and_so_is_a_word() -> None:
    encoding = encode("Old New York City and New York are newcomers, yorkshiremen")
    first = phrases(encoding, TITLES)
    groups: dict[int, list[str]] = {}
    for token, place in zip(encoding.tokens, first, strict=True):
        groups.setdefault(place, []).append(token)
    whole = ["".join(some).replace("##", "") for some in groups.values()]
    assert whole == "old newyorkcity and newyork are newcomers , yorkshiremen".split()
    assert max(len(some) for some in groups.values() if some[0] not in ("new",)) > 1  # of a word
    assert phrases(encoding, set())[1:4] == [1, 2, 3]


def test_rows_hold_each_piece_once_and_phrases_begin_in_their_row() -> None:
    text = "The city of New York City is here. " * 30
    rows = windows([Document("a", "encyclopedia", text), Document("b", "b", "Short.")], TITLES)
    ids, first, capital = rows
    assert ids.shape[1] == LENGTH
    real = ids != PAD_ID
    inside = real & (ids != CLS_ID) & (ids != SEP_ID)
    assert ids[:-1][inside[:-1]].tolist() == encode(text).ids
    assert (first <= torch.arange(LENGTH)).all()
    assert (first[inside] > 0).all()  # never `[CLS]`
    assert (capital[~inside] == NO_TARGET).all()
    the = ids == TOKENIZER.token_to_id("the")  # begins each sentence
    assert the[:-1].sum() == 30
    assert (capital[the] == NO_TARGET).all()
    york = TOKENIZER.token_to_id("york")
    before = ids.roll(1, dims=1)  # "new", or `[CLS]` where a title is cut
    assert (capital[ids == york] == 1).all()
    for row, place in (ids == york).nonzero().tolist():
        cut = before[row, place] == CLS_ID
        assert first[row, place] == (place if cut else place - 1)


LONG = [Document("b", "", "The mayor of New York City met Ann in New York. " * 200)]


def toy_rows() -> torch.Tensor:
    return windows(LONG, TITLES)


def test_titles_are_hidden_whole_and_other_arms_hide_the_same_pieces() -> None:
    rows = toy_rows()
    hidden = {arm: hide(rows, arm, dice(1)) for arm in ARMS}
    for arm in (SINGLE, CAPITALS):
        assert torch.equal(hidden[arm][0], hidden[ARMS[0]][0])
    york, city = (TOKENIZER.token_to_id(word) for word in ("york", "city"))
    found = rows[0].eq(york) & rows[0].roll(-1, 1).eq(city)
    row, place = found.nonzero().T
    keep = (place > 1) & (place < LENGTH - 2)
    row, place = row[keep], place[keep]
    for arm in (SINGLE, WHOLE):
        _, selected = hidden[arm]
        three = torch.stack([selected[row, place + at] for at in (-1, 0, 1)])
        assert (three.sum(0) % 3 == 0).all() == (arm == WHOLE)
        assert selected[rows[0] > 4].float().mean() == pytest.approx(names.RATE, abs=0.03)
        assert (hidden[arm][0][selected] == MASK_ID).all()


def tiny(seed: int = 0) -> BertForPreTraining:
    torch.manual_seed(seed)
    size = TOKENIZER.get_vocab_size()
    model = BertForPreTraining(
        BertConfig(size, 16, 1, 2, 32, LENGTH, 2, 0.0, initializer_range=0.4)
    )
    model.nsp = TaggingHead(16, 2)
    return model


def test_the_second_task_adds_to_the_loss_and_changes_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, rows, read = tiny(), toy_rows(), []
    before = model.bert.forward
    monkeypatch.setattr(
        model.bert, "forward", lambda ids, **given: read.append(ids) or before(ids, **given)
    )
    alone, both, whole = (loss_of(model, rows, arm, dice()) for arm in (SINGLE, CAPITALS, WHOLE))
    assert torch.equal(read[0], read[1])
    real = [ids.masked_fill(ids == MASK_ID, 0) for ids in (read[0], read[2])]
    seen = (read[0] != MASK_ID) & (read[2] != MASK_ID)
    assert torch.equal(real[0][seen], real[1][seen])  # the same rows, other holes
    assert not torch.equal(read[0], read[2])
    assert both > alone
    (both - alone).backward()
    assert model.nsp.classifier.weight.grad.abs().sum() > 0
    assert float(whole.detach()) > 0


def test_the_loss_is_that_of_the_hidden_pieces_of_the_rows_drawn() -> None:
    model, rows = tiny(), windows([Document("a", "", "Ann met a man."), *LONG], TITLES)
    chosen = drawn(torch.arange(rows.shape[1]), again := dice())
    assert (rows[0, chosen] == PAD_ID).any()
    hidden, selected = hide(rows[:, chosen], SINGLE, again)
    scores, _ = model.eval()(hidden, padding_mask=rows[0, chosen] != PAD_ID, selected=selected)
    expected = torch.nn.functional.cross_entropy(scores, rows[0, chosen][selected])
    assert loss_of(model, rows, SINGLE, dice()).item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_head_is_scored_on_what_is_asked() -> None:
    model, rows = tiny(), toy_rows()
    with torch.no_grad():
        model.nsp.classifier.weight.zero_()
        model.nsp.classifier.bias.copy_(torch.tensor([1.0, 0.0]))  # always says: no capital
    scores = capital_accuracy(model, rows)
    asked = rows[2][rows[2] != NO_TARGET]
    assert scores["capitals, always lower case"] == pytest.approx(
        (asked == 0).float().mean().item()
    )
    split = [scores["capitals, visible"], scores["capitals, hidden"]]
    assert min(split) <= scores["capitals, always lower case"] <= max(split)
    with torch.no_grad():
        model.nsp.classifier.bias.copy_(torch.tensor([0.0, 1.0]))
    turned = capital_accuracy(model, rows)
    for name in ("capitals, visible", "capitals, hidden"):
        assert turned[name] == pytest.approx(1 - scores[name])


def test_who_marks_what_training_marked_finds_known_names_and_no_new_ones(
    monkeypatch: pytest.MonkeyPatch,
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
        scores = names.tagged(tiny().bert, 0)
        assert scores == {"F1": pytest.approx(f1), "known names": 1, "new names": new}


def test_a_model_is_trained_on_training_articles_and_capitals_are_scored_on_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = {"train": toy_rows(), "dev": toy_rows()[:, :5]}
    trained: list[torch.Tensor] = []
    monkeypatch.setattr(names, "load_checkpoint", lambda _: tiny())
    monkeypatch.setattr(names, "read", of.__getitem__)  # fails for test articles
    monkeypatch.setattr(names, "train", lambda _, loss, *__: trained.append(loss.args[1]))
    monkeypatch.setattr(names, "tagged", lambda *_: dict.fromkeys(names.MEASURES, 0.5))
    scored: list[torch.Tensor] = []
    monkeypatch.setattr(names, "capital_accuracy", lambda _, text: scored.append(text) or {})
    for arm in ARMS:
        list(names.run(arm, 0))
    assert [text is of["train"] for text in trained] == [True] * 3  # all but the first arm
    assert [text is of["dev"] for text in scored] == [True]


def test_every_arm_was_run_with_three_seeds() -> None:
    rows = read_csv(shipped("results") / "names.csv")
    assert {(r["arm"], r["seed"]) for r in rows} == {(a, s) for a in ARMS for s in "012"}
    measured = [(r["arm"], r["seed"], r["measure"]) for r in rows]
    assert len(measured) == len(set(measured)) == 12 * len(names.MEASURES) + 3 * 3
    assert not any(row["commit"].endswith("+") for row in rows)
    scores = {key: float(row["value"]) for key, row in zip(measured, rows, strict=True)}
    for seed in "012":
        usual = scores[CAPITALS, seed, "capitals, always lower case"]
        for words in ("visible", "hidden"):
            assert scores[CAPITALS, seed, f"capitals, {words}"] > usual

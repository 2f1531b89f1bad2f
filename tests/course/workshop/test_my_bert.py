"""What a learner writes becomes a BERT: kept, loaded, named when it breaks, equal to ours."""

import __future__

import inspect
import linecache
import textwrap
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from verdicts import verdict, words

import bertedu
from bertedu.analysis.fill import fill_blanks
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError
from bertedu.model.config import DIRECTIONS, BertConfig, Direction
from bertedu.model.variants.bigbird import bigbird
from bertedu.model.variants.generation import generate
from bertedu.model.variants.rotary import modern_bert
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.text.tokenization import SEP_ID, SPECIAL_TOKENS
from course.exercises import check
from course.exercises.judge import mistakes_of
from course.exercises.patch import source_of
from course.exercises.real_bert import PLAY, published_bert
from course.experiments.toy import toy_ids, toy_losses, toy_questions
from course.experiments.toy_language import ToyLanguage
from course.workshop import my_bert
from course.workshop.assembly import Ideas, MyBert
from course.workshop.board import BOXES
from course.workshop.my_bert import EXERCISES, OURS, SWITCHED, Rows

PARTS = list(EXERCISES)
ALL = len(PARTS)
VOCAB = [*SPECIAL_TOKENS, *map(str, range(8187))]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for parts, and a kernel in which nothing has passed yet."""
    monkeypatch.setenv("BERTEDU_MY_BERT", str(tmp_path / "parts"))
    new_kernel()
    return tmp_path / "parts"


def new_kernel() -> None:
    my_bert._passed.clear()


def cell(source: str, **names: Any) -> Callable[..., Any]:
    """Run a learner's cell in a notebook that has imported some names; return its last function."""
    source = textwrap.dedent(source)
    file = f"<cell {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = {**names, "__name__": "__main__"}
    exec(compile(source, file, "exec", __future__.annotations.compiler_flag, True), scope)
    made: Callable[..., Any] = [value for value in scope.values() if inspect.isfunction(value)][-1]
    return made


def solution(name: str) -> str:
    """Our right function as a learner would have written it."""
    text = source_of(OURS[name])
    return text.replace(f"def {OURS[name].__name__}(", f"def my_{name}(")


def written(name: str) -> Callable[..., Any]:
    return cell(solution(name), **vars(inspect.getmodule(OURS[name])))


def solve(name: str) -> str:
    return verdict(getattr(check, name), written(name))


def loaded(**passed: my_bert.Part) -> str:
    """What a new kernel, in which these parts have passed, says after `load()`."""
    new_kernel()
    my_bert._passed.update(passed)
    return words(verdict(lambda _: my_bert.load(), None))


@pytest.fixture
def solved() -> None:
    """A kernel in which every part of the learner's is in use."""
    my_bert._passed.update({name: my_bert.Part(written(name)) for name in PARTS})


def named_part(_: None) -> None:
    my_bert.part("nsp_loss")


# -- all solved, none solved


def test_each_part_that_passes_is_kept_and_counted_and_found_in_a_new_kernel(place: Path) -> None:
    for name, exercise in EXERCISES.items():  # nothing of a stub
        stub = cell(f"def my_{name}({', '.join(exercise.arguments)}):\n    ...\n")
        assert "not written yet" in verdict(getattr(check, name), stub)
    assert loaded() == f"0 of {ALL} parts of your BERT are yours."
    assert not place.exists()
    assert repr(my_bert.board()).count("·") == ALL + 1  # and once where it is explained
    for count, name in enumerate(PARTS, start=1):
        said = solve(name)
        assert said.startswith(f"✓ {name}: ")
        assert said.endswith(f"\n  kept: {count} of {ALL} parts of your BERT\n")
        kept = (place / f"{name}.py").read_text(encoding="utf-8")
        assert kept.startswith(f"# {name}, kept 20")
        assert f"def my_{name}(" in kept
    assert repr(my_bert.board()).startswith(f"{ALL} of {ALL} parts of your BERT are yours.")
    assert loaded() == f"{ALL} of {ALL} parts of your BERT are yours."
    assert sorted(path.stem for path in place.iterdir()) == sorted(PARTS)
    shown = my_bert.board()._repr_html_()
    assert all(shown.count(f"✓ {name}</text>") == 1 for name in PARTS)
    assert set(BOXES) == set(PARTS)
    number = {name: row[:2] for row, names in my_bert.PARTS.items() for name in names.split()}
    assert {name: box[-1] for name, box in BOXES.items()} == number


def batch(vocab_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, segments and padding mask of three rows."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(len(SPECIAL_TOKENS), vocab_size, (3, 12), generator=generator)
    segments = (torch.arange(12) > 5).long().expand(3, -1)
    real = torch.arange(12) < torch.tensor([[12], [9], [4]])
    return ids.masked_fill(~real, 0), segments, real


def apart(mine: MyBert, ours: BertForPreTraining) -> float:
    """The largest difference in states, word scores and pair scores at real tokens."""
    given = batch(ours.config.vocab_size)
    real = given[-1]
    with torch.no_grad():
        here = [*mine.states(*given), *mine(*given)]
        there = [*ours.bert(*given).hidden_states, *ours(*given)]
    gaps = [a[real] - b[real] for a, b in zip(here[:-1], there[:-1], strict=True)]
    return max(gap.abs().max().item() for gap in [*gaps, here[-1] - there[-1]])


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_learners_bert_and_ours_equal_the_package_in_every_direction(
    model: BertForPreTraining, direction: Direction
) -> None:
    ours = BertForPreTraining(replace(model.config, direction=direction)).eval()
    ours.load_state_dict(model.state_dict())
    none = f"Its {ALL} parts are still the course's; each one you solve becomes your own."
    assert verdict(lambda _: my_bert.build(ours, VOCAB) and None, None) == f"Your BERT. {none}\n"
    assert apart(my_bert.build(ours, VOCAB), ours) < 1e-5
    my_bert._passed.update({name: my_bert.Part(written(name)) for name in PARTS})
    mine = my_bert.build(ours, VOCAB)
    assert apart(mine, ours) < 1e-5
    with torch.no_grad():  # the comparison sees what it is about
        ours.nsp.classifier.weight[0, 0] += 0.1
    assert apart(mine, ours) > 1e-3


def test_with_the_weights_of_bert_mini_it_fills_a_blank_as_bert_mini_does(
    solved: None, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tokenizer = bertedu.load("bert-mini")
    mine = my_bert.build("bert-mini")
    assert capsys.readouterr().out == f"Your BERT. All {ALL} of its parts are yours.\n"
    assert all(getattr(mine.part, name).__name__ == f"my_{name}" for name in PARTS)
    text = "Café owners, I ask the ___ to pass this bill in [MASK]."
    here, there = mine.fill(text), fill_blanks(model, tokenizer, text)
    assert [[g.word for g in some] for some in here] == [[g.word for g in some] for some in there]
    shares = [torch.tensor([g.probability for some in x for g in some]) for x in (here, there)]
    assert torch.allclose(*shares, atol=1e-5)
    pair = "Who wrote it?", "Nobody knows 12,5."
    ids, segments = mine.encode(*pair)
    encoding = tokenizer.encode(*pair)
    assert (ids[0].tolist(), segments[0].tolist()) == (encoding.ids, encoding.type_ids)


@pytest.mark.parametrize("ideas", [None, Ideas(True, 3, 1)])
def test_it_begins_to_learn_the_toy_language(solved: None, ideas: Ideas | None) -> None:
    for name in IDEAS if ideas else ():
        solve(name)
    language = ToyLanguage()
    vocab = [*SPECIAL_TOKENS, *language.words]
    torch.manual_seed(0)
    config = BertConfig(len(vocab), 64, 2, 4, 256, 32, dropout=0.0)
    mine = my_bert.build(BertForPreTraining(config), vocab, ideas)
    ids = toy_ids(language, language.sample(20_000, 0))
    mine.pretrain(Rows(ids, torch.zeros_like(ids)), 100, 5e-3, mask_rate=0.4)
    questions = toy_questions(language, language.sample(60, 10_000))
    limit = questions.limits["bidirectional"].mean().item()
    loss = toy_losses(mine, questions).mean().item()
    assert limit < loss < 2.2  # guessing gives 3.8


def test_it_reads_a_published_file_and_names_what_that_lacks(solved: None) -> None:
    tensors, right = published_bert()
    torch.manual_seed(0)
    mine = my_bert.build(BertForPreTraining(PLAY), VOCAB[:30])
    ids, segments = torch.arange(24).view(2, 12), torch.arange(24).view(2, 12) % 2

    def pooled() -> Tensor:
        return mine.pooled(mine.states(ids, segments)[-1])

    assert not torch.allclose(pooled(), right(ids, segments), atol=1e-2)
    assert mine.read(tensors) == []
    torch.testing.assert_close(pooled(), right(ids, segments))
    del tensors["pooler.dense.bias"]
    assert mine.read(tensors) == ["pooler.dense.bias"]


def test_it_learns_pairs_of_real_documents_and_resumes_exactly(
    solved: None, tmp_path: Path
) -> None:
    rng = torch.Generator().manual_seed(0)
    text = torch.randint(5, 60, (12, 24, 9), generator=rng).tolist()
    documents = [EncodedDocument("a", sentences) for sentences in text]
    torch.manual_seed(0)
    start = BertForPreTraining(BertConfig(60, 16, 1, 2, 32, 32, dropout=0.0))
    vocab = [*SPECIAL_TOKENS, *map(str, range(55))]
    whole, stopped, resumed, weights_only = (my_bert.build(start, vocab) for _ in range(4))
    rows = whole.make_pairs(documents, 32, 100)
    assert rows.next_labels is not None
    assert len(rows.ids) == 100
    assert 30 < rows.next_labels.sum() < 70
    losses = whole.pretrain(rows, 12, 1e-3, batch_size=8)
    assert stopped.pretrain(rows, 12, 1e-3, batch_size=8, until=5) == losses[:5]
    for run in (whole.__class__(start, vocab, OURS), stopped):
        run.save(tmp_path / "state")
        resumed.resume(tmp_path / "state")
    assert resumed.pretrain(rows, 12, 1e-3, batch_size=8) == losses[5:]
    for name, weight in whole.w.items():
        assert torch.equal(weight, resumed.w[name]), name
    weights_only.resume(tmp_path / "state")
    weights_only.averages = whole.__class__(start, vocab, OURS).averages
    assert weights_only.pretrain(rows, 12, 1e-3, batch_size=8) != losses[5:]
    other = my_bert.build(BertForPreTraining(BertConfig(60, 8, 1, 2, 16, 32)), vocab)
    with pytest.raises(CheckpointError, match="not of a run of this model"):
        other.resume(tmp_path / "state")
    with pytest.raises(ValueError, match="one document alone is of source 'b'"):
        whole.make_pairs([*documents, EncodedDocument("b", text[0])], 32, 1000)


def test_only_matrices_decay_and_a_row_without_a_word_is_no_answer(
    model: BertForPreTraining,
) -> None:
    """A table may be longer than the vocabulary, to a round number."""
    mine, decays = my_bert.build(model, [*SPECIAL_TOKENS, "the", "a", "."]), []

    def adamw(weight: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
        decays.append((weight.ndim > 1, rest[-1]))
        return weight, weight, weight

    mine.part.adamw = adamw
    mine.update([torch.zeros_like(weight) for weight in mine.w.values()], 1e-3)
    assert {*decays} == {(True, 0.01), (False, 0.0)}
    with torch.no_grad():
        mine.w["mlm.decoder.bias"][8:] = 100
    assert {guess.word for guess in mine.fill("the ___ .", top=3)[0]} == {"the", "a", "."}


def test_one_part_alone_is_used_and_named() -> None:
    assert verdict(named_part, None).startswith("nsp_loss: ours, until")
    solve("nsp_loss")
    said = verdict(lambda _: my_bert.build("bert-L2H128") and None, None)
    assert said == f"Your BERT. 1 of its {ALL} parts is yours: nsp_loss. The rest are ours.\n"
    assert verdict(named_part, None) == "nsp_loss: yours\n"
    assert my_bert.part("nsp_loss").__name__ == "my_nsp_loss"


# -- ideas that came after BERT, in the learner's own

IDEAS = {
    "rotate": Ideas(rotary=True),
    "window_mask": Ideas(window=2, global_tokens=1),
    "next_token": Ideas(),
}


def test_the_ideas_of_17_and_18_are_kept_and_found_and_switched_on(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(IDEAS) == set(SWITCHED)
    for name in IDEAS:
        said = solve(name)
        assert said.startswith(f"✓ {name}: ")
        assert said.endswith("kept: an idea that your BERT can switch on.\n")
    assert loaded() == f"0 of {ALL} parts of your BERT are yours."  # none is needed for a BERT
    assert "After BERT, yours to switch on: next_token, window_mask, rotate." in words(
        repr(my_bert.board())
    )
    mine = my_bert.build("ltr-L4H128", ideas=Ideas(True, 4, 1))
    said = words(capsys.readouterr().out)
    assert all(f"Switched on: {name}, yours." in said.replace("\n", " ") for name in IDEAS)
    assert all(getattr(mine.part, name).__name__ == f"my_{name}" for name in IDEAS)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("rotate", lambda config: modern_bert(replace(config, type_vocab_size=1))),
        ("window_mask", lambda config: bigbird(config, window=2, global_tokens=1)),
    ],
)
def test_with_an_idea_switched_on_it_equals_the_packages_machine(
    name: str, make: Callable[..., BertForPreTraining]
) -> None:
    torch.manual_seed(0)
    ours = make(BertConfig(60, 16, 2, 2, 32, 12, dropout=0.0, initializer_range=0.5)).eval()
    vocab = [*SPECIAL_TOKENS, *map(str, range(55))]
    ids, segments, real = batch(60)
    segments = segments * (ours.config.type_vocab_size - 1)
    solve(name)
    states = ours.bert(ids, segments, real).hidden_states
    mine = my_bert.build(ours, vocab, IDEAS[name]).states(ids, segments, real)
    gaps = [(a[real] - b[real]).abs().max() for a, b in zip(mine, states, strict=True)]
    assert max(gaps) < 1e-4
    wrong = mistakes_of(SWITCHED[name])[0].wrong[0]
    spoiled = MyBert(ours, vocab, {**OURS, name: wrong}, IDEAS[name]).states(ids, segments, real)
    assert (spoiled[-1] - states[-1])[real].abs().max() > 1e-3
    alone = IDEAS[name]._replace(window=0, global_tokens=0)
    narrow = MyBert(ours, vocab, OURS, alone).states(ids, segments, real)
    assert narrow[-1].isfinite().all()  # where only padding is near, too


def test_it_writes_what_the_package_writes() -> None:
    solve("next_token")
    gpt, tokenizer = bertedu.load("ltr-L4H128")
    prompt = torch.tensor([tokenizer.encode("The river flows through").ids[:-1]])
    ids = generate(gpt, prompt, 12, 0.8, 20, torch.Generator().manual_seed(4))
    mine = my_bert.build("ltr-L4H128")
    written = mine.write("The river flows through", 12, 0.8, 20, seed=4)
    assert written == " ".join(map(tokenizer.id_to_token, ids[0, 1:].tolist())).replace(" ##", "")
    offered: list[Tensor] = []
    mine.part.next_token = lambda scores, *_: offered.append(scores) or torch.eye(len(scores))[9]
    assert mine.write("The river", 2).split()[2:] == [tokenizer.id_to_token(9)] * 2
    # Of the special tokens only [SEP], the end, may be drawn; that is not for the part to see to.
    assert offered[0][:5].isfinite().tolist() == [i == SEP_ID for i in range(5)]
    with pytest.raises(ValueError, match="only a left-to-right model writes"):
        my_bert.build("bert-L2H128").write("the", 1)


# -- mistakes


@pytest.mark.parametrize("name", PARTS)
def test_a_mistake_is_neither_kept_nor_used_and_the_board_says_which_part_has_one(
    name: str, place: Path, solved: None
) -> None:
    exercise, parts = EXERCISES[name], dict(my_bert._passed)
    assert verdict(getattr(check, name), mistakes_of(exercise)[0].wrong[0]).startswith("✗")
    assert not place.exists()
    solve(name)
    kept = (place / f"{name}.py").read_text(encoding="utf-8")
    head, _ = kept.split("\n", 1)
    wrong = f"def my_{name}({', '.join(exercise.arguments)}):\n    return None\n"
    (place / f"{name}.py").write_text(f"{head}\n{wrong}", encoding="utf-8")
    said = loaded(**parts)
    board = repr(my_bert.board())
    assert said.startswith(f"✗ {name}: ")
    assert said.endswith(f" {ALL - 1} of {ALL} parts of your BERT are yours.")
    assert [other for other in PARTS if f"✓ {other}" not in board] == [name]
    assert f"\n! {name}: what is in its file does not pass the check" in board
    assert my_bert.part(name) is OURS[name]


LEFT = "the gradients are not what they are with ours. Does it leave"
WRITTEN = {  # they pass their check; what does the whole say of them?
    name: (solution(name).replace(old, new), trouble)
    for name, old, new, trouble in (
        ("cut_word", "while start", "vocab.sort()\n    while start", ""),
        ("encode_pair", "len(first)", "len([first.append(0), *first]) - 2", ""),
        ("layer_norm", "/ (variance + eps).sqrt()", "* (variance + eps) ** -0.5", ""),
        ("feed_forward", "W1.T + b1)", "W1.T + b1).detach()", LEFT),
        ("encoder_layer", "mask, maps, heads", "mask=mask, w=maps, heads=heads", ""),
        ("post_norm_layer", "y = norm_1", "torch.rand(2)\n    y = norm_1", ""),
        ("pooler", "W.T + b)", "W.T + b).mul_(1)", "the gradients cannot be computed ("),
        ("masking", "), selected", "), selected.numpy()", "the loss cannot be computed ("),
    )
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_part_that_passes_and_breaks_the_whole_is_named_and_not_used(
    name: str, model: BertForPreTraining
) -> None:
    source, trouble = WRITTEN[name]
    assert source != solution(name)
    function = cell(source, **vars(inspect.getmodule(OURS[name])))
    told = words(verdict(getattr(check, name), function))
    assert told.startswith(f"✓ {name}: ")
    assert f"kept: 1 of {ALL} parts of your BERT" in told
    assert ("But your BERT cannot use it yet: with it, " in told) == bool(trouble)
    assert trouble in told
    assert ("Does it leave" in told) == trouble.endswith("Does it leave")
    for board in (my_bert.board(), (loaded(), my_bert.board())[1]):
        assert repr(board).startswith(f"{int(not trouble)} of {ALL} parts")
        assert (f"! {name}: with it, {trouble}" in words(repr(board))) == bool(trouble)
        assert f"{'!' if trouble else '✓'} {name}</text>" in board._repr_html_()
    mine = my_bert.build(model, VOCAB)
    assert (getattr(mine.part, name) is OURS[name]) == bool(trouble)
    mine.encode("1 2")
    assert mine.vocab == VOCAB


# -- what cannot be kept


def test_what_stands_outside_the_function_is_named_and_what_can_come_along_does() -> None:
    outside = (
        "def my_nsp_loss(scores, labels):\n    return half * 2 * F.cross_entropy(scores, labels)\n"
    )
    told = words(verdict(check.nsp_loss, cell(outside, F=F, half=0.5)))
    assert (
        "not kept: my_nsp_loss uses `half`, which is defined outside the function: put it inside."
        in told
    )
    assert my_bert.board().headline.startswith("0 of")
    helped = "def half(x):\n    return x / TWO(2)\n\n\n" + outside.replace("half *", "half(1) *")
    both = cell(helped, F=F, TWO=cell("def TWO(n):\n    return float(n)\n"))
    assert "kept: 1 of" in verdict(check.nsp_loss, both)
    pair = solution("pair").replace("coin < 0.5", "np.less(coin, 0.5)")
    names = {"np": np, "chain": chain, "IS_NEXT": 0, "NOT_NEXT": 1}
    assert "kept: 2 of" in verdict(check.pair, cell(pair, **names))
    assert loaded() == f"2 of {ALL} parts of your BERT are yours."


def test_a_function_without_a_text_of_its_own_is_told_how_to_write_it(place: Path) -> None:
    for function in (torch.nn.CrossEntropyLoss(), lambda x, y: F.cross_entropy(x, y)):
        told = words(verdict(check.nsp_loss, function))
        assert told.startswith("✓ nsp_loss: ")
        assert "not kept: its text cannot be read. Write it in a cell, beginning with" in told
    assert not place.exists()
    verdict(check.chance, lambda vocab_size: torch.tensor(vocab_size).log())
    assert not place.exists()  # no part


# -- bad states of the folder


def test_nothing_of_the_folder_runs_before_it_is_loaded(place: Path, tmp_path: Path) -> None:
    solve("nsp_loss")
    file = place / "nsp_loss.py"
    ran = tmp_path / "ran"
    file.write_text(file.read_text() + f"\nopen({str(ran)!r}, 'w').close()\n")
    new_kernel()
    assert "… nsp_loss" in repr(my_bert.board())
    my_bert.build("bert-L2H128")
    my_bert.part("nsp_loss")
    solve("pooler")
    assert not ran.exists()
    my_bert.load()
    assert ran.exists()
    assert repr(my_bert.board()).startswith(f"2 of {ALL} parts")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"def my_nsp_loss(x)\n    return x\n", "line 1 of its file is not Python (expected ':')."),
        (b"# nsp_loss\nx = 3\n", "its file holds no function."),
        (b"\xff\xfe\x00", "its file stops with UnicodeDecodeError"),
        (b"def my_nsp_loss(x):\n    return x\n1 / 0\n", "its file stops with ZeroDivisionError"),
        (b"exit()\ndef my_nsp_loss(x):\n    return x\n", "its file stops with SystemExit"),
        (b"def my_nsp_loss(x):\n    return x * scale\n", "does not pass"),
    ],
)
def test_a_spoiled_file_gets_a_line_and_ours_stands_in(
    place: Path, content: bytes, said: str
) -> None:
    solve("nsp_loss"), solve("pooler")
    (place / "nsp_loss.py").write_bytes(content)
    my_bert.load()  # in the session that had kept it, too
    assert my_bert.board().headline.startswith("1 of")
    assert said in words(repr(my_bert.board()))
    told = loaded()
    assert told.startswith("✗ nsp_loss: ")
    assert said in told
    assert told.endswith(
        f"Ours is used; check.nsp_loss keeps a new one. 1 of {ALL} parts of your BERT are yours."
    )
    solve("nsp_loss")
    assert loaded() == f"2 of {ALL} parts of your BERT are yours."


def test_another_version_of_an_exercise_is_told_and_taken_if_it_passes(place: Path) -> None:
    solve("nsp_loss")
    file = place / "nsp_loss.py"
    head, body = file.read_text(encoding="utf-8").split("\n", 1)
    wrong = "def my_nsp_loss(x):\n    return x\n"
    for text, said in (
        (body, f"1 of {ALL} parts"),
        (wrong, "✗ nsp_loss: kept for another version"),
    ):
        file.write_text(f"{head[:-8]}00000000\n{text}", encoding="utf-8")
        assert loaded().startswith(said)


def test_a_folder_that_is_gone_or_no_folder_harms_nothing(place: Path) -> None:
    solve("nsp_loss")
    (place / "nsp_loss.py").unlink()
    place.rmdir()
    assert my_bert.board().headline.startswith("1 of")  # this session still has it
    assert loaded() == f"0 of {ALL} parts of your BERT are yours."
    place.write_text("a file", encoding="utf-8")
    told = words(verdict(check.nsp_loss, cell(solution("nsp_loss"), torch=torch)))
    assert told.startswith("✓ nsp_loss: ")
    assert "not kept: cannot write" in told
    assert my_bert.board().headline.startswith("1 of")
    assert loaded() == f"0 of {ALL} parts of your BERT are yours."


# -- what it refuses


def test_models_that_these_parts_do_not_make_are_refused(model: BertForPreTraining) -> None:
    pre = BertForPreTraining(replace(model.config, norm="pre"))
    for other in (pre, "elmo-L4H128"):
        with pytest.raises(ValueError, match="post-norm BERT"):
            my_bert.build(other, ["[PAD]"])
    mine = my_bert.build("ltr-L4H128")
    with pytest.raises(ValueError, match="reads both sides"):
        mine.fill("the ___")
    with pytest.raises(ValueError, match="no blank"):
        my_bert.build("bert-L2H128").fill("the end")

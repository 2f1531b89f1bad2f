"""`bertedu pretrain`: what an option reaches, kill -9 and resume, one folder, every refusal."""

import hashlib
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from called import one_line_error, run
from forked import Program
from house import ROOT, files_entered
from small_runs import ctrl_c, do_in, state_on_disk
from typer.testing import Result

from bertedu import machine
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_checkpoint, load_named, load_pretrained, save_checkpoint
from bertedu.model.config import PRESETS, BertConfig
from bertedu.pretraining import run as running
from bertedu.pretraining.batches import Recipe, load_splits
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.run import LOCK_FILE, STATE_FILE, VARIANTS, step_seconds
from bertedu.pretraining.trainer import initialize
from bertedu.text.fast_tokenizer import load_vocabulary, save_tokenizer
from bertedu.text.streaming import DocumentStream

OPTIONS = "--config tiny --device cpu --dropout 0.1".split()
SHORT = ("--steps", 8, "--save-every", 2)
STILL = ("--learning-rate", 1e-12)  # nothing moves


@pytest.fixture(scope="module")
def splits(corpus: Path) -> dict[str, list[EncodedDocument]]:
    return load_splits([str(corpus)], lambda line: None)


@pytest.fixture(autouse=True)
def _small(
    monkeypatch: pytest.MonkeyPatch, corpus: Path, splits: dict[str, list[EncodedDocument]]
) -> None:
    """A smaller BERT behind the same names, its text encoded once."""

    def load(corpora: list[str], say: Any) -> dict[str, list[EncodedDocument]]:
        return splits if corpora == [str(corpus)] else load_splits(corpora, say)

    monkeypatch.setattr(running, "load_splits", load)
    monkeypatch.setitem(PRESETS, "tiny", (1, 8, 1))


def command(corpus: Path, out: Path, *more: object) -> list[str]:
    """The command; without the options that ``more`` gives, or cannot stand beside."""
    options = OPTIONS[2:] if "--init" in more else OPTIONS
    source = () if "--stream" in more else ("--corpus", corpus)
    return ["pretrain", *options, *map(str, (*source, "--out", out, *more))]


def invoke(corpus: Path, out: Path, *more: object) -> Result:
    result = run(*command(corpus, out, *more))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def finished(corpus: Path, out: Path, *more: object) -> dict[str, Any]:
    """Run to the end; return the record."""
    result = invoke(corpus, out, *more)
    assert result.exit_code == 0, result.output
    assert f"written: {out}" in result.output
    # one that had only to write its files has no step to tell of
    told = "" if "--resume" in more else r".+loss [\d.]+, words [\d.]+%, .*[\d,]+ tokens/s"
    assert re.search("pre-training: 100%" + told, result.stderr)
    return dict(json.loads((out / "training.json").read_text()))


def refused(corpus: Path, out: Path, *more: object) -> str:
    return one_line_error(invoke(corpus, out, *more))


def steps_on_disk(out: Path) -> int:
    return int(state_on_disk(out / STATE_FILE)["step"])


def same_weights(one: Path, two: Path) -> bool:
    return (one / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()


# -- kill -9

# The half of a state file is written, then the process is gone.
DIE_WHILE_WRITING = """
import os, signal
import bertedu.model.checkpoints as weight_files
whole, count = weight_files.save_file, []
def save_file(tensors, part, metadata):
    whole(tensors, part, metadata)
    count.append(1)
    if len(count) == 3:
        with open(part, "r+b") as file:
            file.truncate(part.stat().st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)
weight_files.save_file = save_file
"""
FILES = "config.json model.safetensors tokenizer.json tokenizer_config.json vocab.txt training.json"


def test_kill_9_in_the_middle_of_a_file_then_resume_ends_bit_identical(
    corpus: Path, tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    options = ("--config", "L1H64", "--steps", 20, "--save-every", 4)
    code, *_ = Program(command(corpus, broken, *options), DIE_WHILE_WRITING).end()
    assert code == -signal.SIGKILL
    assert list(broken.glob(".*.part")), "it should have died with half a file"
    assert steps_on_disk(broken) == 8
    (broken / ".tmpaB3dE9").touch()  # what a kill in the middle of safetensors leaves
    records = [finished(corpus, whole, *options), finished(corpus, broken, *options, "--resume")]
    assert same_weights(whole, broken)
    for row in (*records[0]["curve"], *records[1]["curve"]):
        del row["seconds"]
    for key in ("curve", "tokens", "steps", "recipe", "config", "corpora"):
        assert records[0][key] == records[1][key], key
    for out in (whole, broken):
        assert {path.name for path in out.iterdir()} == {*FILES.split()}


# -- stop and go on; in this process: one tiny model, so that much can be tried quickly

OTHER: list[tuple[str, str]] = [  # what --resume is asked for besides, and what it says to that
    ("--steps 9", "steps 8, not 9"),
    ("--seed 1", "seed 0, not 1"),
    ("--learning-rate 0.5", "learning_rate 0.001, not 0.5"),
    ("--config mini", "config tiny, not mini"),
    ("--dropout 0.2", "dropout 0.1, not 0.2"),
    ("--corpus elsewhere", "corpus ["),
    ("--stream elsewhere", "stream None, not elsewhere"),
    ("--masking 100/0/0", "masking 80/10/10, not 100/0/0"),
    ("--mask-rate 0.5", "mask_rate None, not 0.5"),
    ("--length 32", "length None, not 32"),
    ("--batch-tokens 4096", "batch_tokens 2048, not 4096"),
    ("--optimizer muon", "optimizer adamw, not muon"),
    ("--variant no-nsp", "variant bert, not no-nsp"),
    ("--bfloat16", "bfloat16 False, not True"),
]


def test_a_run_in_progress_is_not_overwritten_nor_resumed_as_another(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    do_in(4, lambda model: ctrl_c(), monkeypatch)
    stopped = invoke(corpus, out, *SHORT)
    assert stopped.exit_code == 130
    assert "stopped after step 5" in stopped.stderr
    assert "stopped after step 7 of 8" in invoke(corpus, out, "--resume", "--stop-at", 7).output
    new = invoke(corpus, tmp_path / "new", "--resume", "--steps", 1)
    assert "holds no run to go on with" in new.output
    assert steps_on_disk(out) == 7  # the number of steps is remembered
    before = (out / STATE_FILE).read_bytes()
    assert "holds a run in progress: go on with --resume" in refused(corpus, out, "--steps", 8)
    for options, problem in OTHER:
        message = refused(corpus, out, "--resume", *options.split())
        assert f"is a run with {problem}" in message
        assert "same options" in message
    changed = [*running.load_vocabulary()[:-1], "changed"]
    monkeypatch.setattr(running, "load_vocabulary", lambda: changed)
    assert "vocabulary" in refused(corpus, out, "--resume")
    assert (out / STATE_FILE).read_bytes() == before, "something was lost"


def test_what_resume_is_not_told_is_as_the_run_began(corpus: Path, tmp_path: Path) -> None:
    told = "--seed 7 --length 32 --mask-rate 0.4 --masking 50/25/25 --learning-rate 0.01".split()
    whole = finished(corpus, tmp_path / "whole", *SHORT, *told)
    out = tmp_path / "run"
    assert invoke(corpus, out, *SHORT, *told, "--stop-at", 3).exit_code == 0
    result = run("pretrain", *OPTIONS[2:], "--out", out, "--resume", "--save-every", 2)
    assert result.exit_code == 0, result.output
    assert json.loads((out / "training.json").read_text())["recipe"] == whole["recipe"]
    assert same_weights(out, tmp_path / "whole")


@pytest.mark.parametrize("asked", [False, True])
def test_a_run_ends_with_the_threads_and_the_products_that_it_began_with(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """Unless it is asked: one thread and 32 bits, whatever the machine could do."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as set by whoever starts a command: left alone
    told = [1]
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: told[-1])
    out, products = tmp_path / "run", "bfloat16" if asked else "float32"
    more = ("--bfloat16", "--threads", 4) if asked else ()
    used: list[bool] = []
    for step in range(3):  # one in each sitting
        do_in(step, lambda model: used.append(torch.is_autocast_enabled("cpu")), monkeypatch)
    assert products in invoke(corpus, out, "--steps", 200, "--stop-at", 1, *more).output
    assert told == ([1, 4] if asked else [1])
    began_with = told[-1]
    told.append(3)
    assert products in invoke(corpus, out, "--resume", "--stop-at", 2).output
    assert (steps_on_disk(out), told[-1]) == (2, began_with)
    assert invoke(corpus, out, "--resume", "--stop-at", 3, "--threads", 2).exit_code == 0
    assert (told[-1], used) == (2, [asked] * 3), "unless it is told"


def test_two_runs_do_not_write_into_one_folder(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, said = tmp_path / "run", list[str]()
    out.mkdir()
    (out / LOCK_FILE).touch()  # of a run that was killed: the file stays, the lock does not

    def come(model: Any) -> None:
        said.extend(refused(corpus, out, "--steps", 3, *more) for more in ([], ["--resume"]))

    do_in(1, come, monkeypatch)
    finished(corpus, out, "--steps", 3)
    assert len(said) == 2
    assert all(f"another run is writing to {out} now" in message for message in said)
    assert not (out / LOCK_FILE).exists()


# what cannot be written: the steps that are kept
@pytest.mark.parametrize(
    ("victim", "kept"), [(STATE_FILE, 2), ("model.safetensors", 4), ("training.json", 4)]
)
def test_a_disk_that_is_full_loses_nothing(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str, kept: int
) -> None:
    out, original = tmp_path / "run", os.replace
    room = iter([True] * (victim == STATE_FILE))  # for one state, after two steps

    def replace(source: Any, target: Any) -> None:
        if Path(target).name == victim and not next(room, False):
            raise OSError(28, "No space left on device")
        original(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        message = refused(corpus, out, "--steps", 4, "--save-every", 2)
    assert "No space left on device" in message
    assert steps_on_disk(out) == kept
    assert finished(corpus, out, "--resume")["steps"] == 4
    finished(corpus, tmp_path / "whole", "--steps", 4, "--save-every", 2)
    assert same_weights(out, tmp_path / "whole")


# -- what an option reaches


def test_a_finished_run_has_its_record_and_is_not_touched(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, commits, train = tmp_path / "run", ["before"], running.Trainer.train

    def edit_and_train(*arguments: Any) -> Any:
        commits.append("after")
        return train(*arguments)

    monkeypatch.setattr(running, "current_commit", lambda: commits[-1])
    monkeypatch.setattr(running.Trainer, "train", edit_and_train)
    record = finished(corpus, out, "--steps", 2, "--threads", 1)
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    for more in ([], ["--resume"]):
        assert "holds a finished run" in refused(corpus, out, "--steps", 2, *more)
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    assert record["steps"] == record["recipe"]["steps"] == record["curve"][-1]["step"] == 2
    assert record["corpora"] == {str(corpus): None}
    assert record["commit"] == "before"
    assert (record["threads"], record["init"]) == (1, None)
    assert record["seconds"] > 0
    assert record["curve"][-1]["dev_mlm_loss"] > 0
    assert all(record[n] for n in "device hardware torch python tokens processes".split())
    assert load_checkpoint(out).config.dropout == 0.1


PHASES = [(0.7, 64, 32, 0.3), (0.3, 128, 16, 0.15)]  # the recipe's own
SCORED = (128, "bidirectional", "masked")
# options: what the recipe says, its phases, and how the held-out text is asked: length, direction
REACHED: dict[str, tuple[Any, ...]] = {
    "": ({"seed": 0, "learning_rate": 1e-3, "masking": [0.8, 0.1], "warmup_share": 0.02,
          "weight_decay": 0.01, "clip_norm": 1.0}, PHASES, SCORED),
    "--masking 0/100/0 --seed 6": ({"seed": 6, "masking": [0.0, 0.0]}, PHASES, SCORED),
    "--mask-rate 1": ({}, [(*phase[:3], 1.0) for phase in PHASES], SCORED),
    "--optimizer muon --length 512": ({"optimizer": "muon"}, [(1.0, 512, 4, 0.15)], SCORED),
    "--batch-tokens 4096": ({}, [(0.7, 64, 64, 0.3), (0.3, 128, 32, 0.15)], SCORED),
    "--length 16 --learning-rate 0.5": (
        {"learning_rate": 0.5}, [(1.0, 16, 128, 0.15)], (16, *SCORED[1:])
    ),
    **{
        f"--variant {name}": (
            {"next_sentence": name == "bert", "question": question}, PHASES,
            (128, direction, question),
        )
        for name, (direction, _, question) in VARIANTS.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("options", REACHED)
def test_options_reach_the_recipe_and_what_is_scored(
    options: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, splits: Any
) -> None:
    cut, asked = running.fixed_batches, []
    said, phases, scored = REACHED[options]

    def spy(documents: Any, length: int, *more: Any, **how: Any) -> Any:
        asked.append((length, how["direction"], how["question"]))
        assert all(any(document is one for one in splits["dev"]) for document in documents)
        return cut(documents, length, *more, **how)

    monkeypatch.setattr(running, "fixed_batches", spy)
    record = finished(corpus, tmp_path / "run", "--steps", 1, *options.split())
    assert said.items() <= record["recipe"].items()
    assert [tuple(phase.values()) for phase in record["recipe"]["phases"]] == phases
    assert asked == [scored]
    assert load_pretrained(tmp_path / "run").config.direction == scored[1]


def test_each_seed_starts_as_a_model_of_its_own(corpus: Path, tmp_path: Path, splits: Any) -> None:
    starts = []
    for number, seed in enumerate((1, 1, 0)):
        finished(corpus, tmp_path / str(number), "--steps", 1, *STILL, "--seed", seed)
        starts.append(load_checkpoint(tmp_path / str(number)))
    one, again, other = (s.bert.encoder.layers[0].attention.query.weight for s in starts)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    # its scores start at how often a word stands in the training text, and only there
    fresh = BertForPreTraining(starts[0].config)
    initialize(fresh, splits["train"])
    found, words = starts[0].mlm.decoder.bias, fresh.mlm.decoder.bias
    torch.testing.assert_close(found, words, atol=5e-3, rtol=0)


def test_init_goes_on_from_the_weights_with_a_fresh_rate_and_mask(
    corpus: Path, tmp_path: Path
) -> None:
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    earlier = finished(corpus, first, "--steps", 2, "--variant", "ltr")
    finished(corpus, other, "--steps", 2, "--seed", 6)
    both = ("--variant", "no-nsp", *STILL, "--steps", 3)
    assert invoke(corpus, second, "--init", first, *both, "--stop-at", 1).exit_code == 0
    wrong = refused(corpus, second, "--init", other, "--resume", *both[:2])
    assert "is a run with init" in wrong
    record = finished(corpus, second, "--init", first, "--resume", *both[:2])
    # at a learning rate of nothing, the weights are those of the first run
    models = [load_checkpoint(folder) for folder in (first, second)]
    before, after = (dict(model.named_parameters()) for model in models)
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-6)
    digest = hashlib.sha256((first / "model.safetensors").read_bytes()).hexdigest()
    assert record["init"] == {"sha256": digest} | earlier
    ids, moved = torch.arange(5, 13)[None], []
    for model in models:
        with torch.no_grad():
            change = model(ids)[0] - model(ids.masked_fill(ids == 12, 20))[0]
        moved.append(bool(change[0, 0].any()))
    assert moved == [False, True], "the first place sees the last one"


def test_weights_are_kept_at_intervals(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    finished(corpus, out, "--steps", 6, "--keep-every", 2)
    # each can be loaded as what it is, a model with its tokenizer
    kept = [load_named(out / "steps" / f"{step:06d}")[0] for step in (2, 4, 6)]
    last = load_checkpoint(out)
    for model in kept:
        pairs = zip(model.parameters(), last.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs) == (model is kept[-1])
    assert len(list((out / "steps").iterdir())) == 3


def test_text_that_the_vocabulary_lacks_is_named(corpus: Path, tmp_path: Path) -> None:
    (other := tmp_path / "other.txt").write_text("정원 나무 꽃. 물 하늘.\n" * 5, encoding="utf-8")
    for where, unknown in ((corpus, False), (other, True)):
        said: list[str] = []
        load_splits([str(where)], said.append)
        assert ("% of the word pieces are [UNK]" in said[-1]) == unknown


# -- how long


def test_a_step_takes_what_its_phases_take_by_their_shares(
    splits: dict[str, list[EncodedDocument]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock where a step of the first phase takes 3 s, of the second 6 s, one for the update,
    half the rest the way back; and whatever the first steps take, as on a GPU, does not count."""
    now, started, original = [0.0], set[int](), running.pretraining_loss
    monkeypatch.setattr(running.time, "perf_counter", lambda: now[0])
    step = torch.optim.AdamW.step
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda o: step(o) or now.append(now.pop() + 1))

    def loss(model: BertForPreTraining, batch: Any, *more: bool) -> Any:
        assert not torch.is_autocast_enabled("cpu"), "32 bits were asked for"
        half = 1.0 if len(batch.ids) == 32 else 2.5
        now[0] += half if len(batch.ids) in started else 100.0
        started.add(len(batch.ids))
        total, scores = original(model, batch, *more)
        total.register_hook(lambda gradient: now.append(now.pop() + half))
        return total, scores

    monkeypatch.setattr(running, "pretraining_loss", loss)
    model = BertForPreTraining(BertConfig(100, 8, 1, 1, 16, 128))
    before = [p.detach().clone() for p in model.parameters()]
    seconds = step_seconds(model, splits["train"], Recipe(1), False)
    assert seconds == pytest.approx(0.7 * 3 + 0.3 * 6)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(("seconds", "steps"), [(0.1, 30), (1.0, 20)])
def test_minutes_end_in_time(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, steps: int
) -> None:
    """In 3 s; but there are never fewer than 20 steps."""
    monkeypatch.setattr(running, "step_seconds", lambda *_: seconds)
    out = tmp_path / "run"
    assert invoke(corpus, out, "--minutes", 0.05, "--stop-at", 2).exit_code == 0
    record = finished(corpus, out, "--minutes", 0.05, "--resume")
    assert record["steps"] == record["recipe"]["steps"] == steps


# -- text


def test_a_small_text_is_all_trained_on_and_says_so(tmp_path: Path) -> None:
    """Of a few documents dev may get one, or the only one: "Guitar" would be held out."""
    book = tmp_path / "Guitar.txt"
    texts = [" ".join(f"Sentence {i} of {n} is short." for i in range(150)) for n in range(3)]
    book.write_text("\n\n".join(texts), encoding="utf-8")
    with files_entered() as files:  # so many opens who follows a run; six of them are BERT's own
        said = invoke(book, tmp_path / "run", "--steps", 2).output
    assert {"cli.py", "pretraining/masking.py", "pretraining/next_sentence.py"} <= files
    assert len(files) <= 21, sorted(files)
    for words in ("fewer than 40 documents: none is held out", "3 train", "too few held-out"):
        assert words in said
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert "dev_mlm_loss" not in record["curve"][-1]
    book.write_text("\n".join(texts), encoding="utf-8")
    finished(book, tmp_path / "no-nsp", "--steps", 2, "--variant", "no-nsp")
    message = refused(book, tmp_path / "refused", "--steps", 2)
    assert "source 'Guitar.txt' has one document" in message


def test_a_stream_is_trained_on_window_by_window_and_resumes(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setattr(DocumentStream.__init__, "__defaults__", (100,))
    path = tmp_path / "big.jsonl"
    text = " ".join(f"The {word} stood near the sea." for word in "town king war".split() * 2)
    lines = [json.dumps({"title": f"t{number}", "text": text}) for number in range(250)]
    path.write_text("\n".join(lines))
    windows, window = list[int](), DocumentStream.window
    watched = lambda stream, number: windows.append(number) or window(stream, number)  # noqa: E731
    monkeypatch.setattr(DocumentStream, "window", watched)
    whole, two = tmp_path / "whole", tmp_path / "two"
    options = ("--stream", path, "--steps", 24, "--save-every", 2)
    record = finished(corpus, whole, *options)
    assert windows == list(range(len(windows)))
    assert len(windows) > 2
    assert record["corpora"] == {f"stream:{path}": None}
    assert "dev_mlm_loss" in record["curve"][-1], "its first window has documents held out"
    assert invoke(corpus, two, *options, "--stop-at", 14).exit_code == 0
    finished(corpus, two, *options, "--resume")
    assert same_weights(whole, two)
    windows.clear()
    list(map(running.stream_windows(str(path)), (0, 1, 1, 0)))
    assert windows == [0, 1, 0], "one is held in memory"


# -- refusals

REFUSED: list[tuple[str, str]] = [  # options and telling words, before any work is done
    ("", "either --steps N or --minutes M"),
    ("--steps 3 --minutes 1", "either --steps N or --minutes M"),
    *((f"--minutes {x}", "--minutes") for x in (0, "nan", "inf")),
    *((f"--steps 3 --learning-rate {x}", "--learning-rate") for x in (0, "nan", "inf")),
    *((f"--steps 3 --dropout {x}", "--dropout") for x in (-0.1, 1, "nan")),
    *((f"--steps 3 --seed {x}", "--seed") for x in (-1, 2**32)),
    *((f"--steps 3 --mask-rate {x}", "--mask-rate") for x in (0, 1.5, "nan")),
    ("--steps 3 --config huge", "no preset 'huge': choose tiny, mini"),
    ("--steps 3 --device abacus", "device 'abacus' cannot be used here"),
    ("--steps 3 --masking 80/10", "three whole percentages that add up to 100"),
    ("--steps 3 --masking 100/0/0 --variant ltr", "leave out --masking"),
    ("--steps 3 --mask-rate 0.3 --variant rtl", "leave out --mask-rate"),
    ("--steps 3 --variant gpt", "no variant 'gpt': choose one of bert, no-nsp, ltr, rtl, elmo"),
    ("--steps 3 --length 15", "--length from 16 to"),
    ("--steps 3 --length 100000", "--length from 16 to"),
    ("--steps 3 --config tiny --init {first}", "choose --config, for"),
    ("--steps 3 --init {first} --variant elmo", "an ELMo starts from scratch"),
    ("--steps 3 --variant elmo --optimizer muon", "trained by adamw"),
    ("--steps 3 --optimizer sgd", "choose adamw or muon"),
    ("--steps 3 --batch-tokens 0", "2048 is usual"),
    ("--steps 3 --init {nowhere}", "no checkpoint"),
    ("--steps 3 --init {words}", "another vocabulary"),
    ("--steps 3 --init {wordless}", "no vocabulary at"),
]
if not torch.cuda.is_available():
    REFUSED.append(("--steps 3 --device cuda", "device 'cuda' cannot be used here"))


@pytest.fixture(scope="module")
def checkpoints(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One that can be trained further, and what cannot."""
    house = tmp_path_factory.mktemp("checkpoints")
    made = {name: house / name for name in ("first", "words", "wordless", "nowhere")}
    vocabulary = load_vocabulary()
    for name in ("first", "words", "wordless"):
        save_checkpoint(BertForPreTraining(BertConfig(len(vocabulary), 8, 1, 1, 32)), made[name])
    save_tokenizer(vocabulary, made["first"])
    save_tokenizer([*vocabulary[:-2], *vocabulary[:-3:-1]], made["words"])
    return made


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_what_makes_no_sense_is_refused_before_any_work(
    corpus: Path,
    checkpoints: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: str,
    words: str,
) -> None:
    for name in ("load_splits", "Trainer", "BertForPreTraining"):
        monkeypatch.setattr(running, name, lambda *_, **__: pytest.fail("it went to work"))
    message = refused(corpus, tmp_path / "made" / "run", *options.format(**checkpoints).split())
    assert words in message
    if words.startswith("--") and " " not in words:
        assert message.startswith(f"Error: {words} ")
        assert " should be " in message
    assert list(tmp_path.iterdir()) == [], "no folder is left, nor one above it"


def test_a_loss_that_is_no_number_is_one_plain_message(corpus: Path, tmp_path: Path) -> None:
    message = refused(corpus, tmp_path, *SHORT, "--learning-rate", 1e30)
    assert "NaN or infinite between steps" in message


def test_what_cannot_be_read_or_written_is_refused(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, three = tmp_path / "run", ("--steps", 3)
    for name in ("nowhere", ""):
        assert f"{name!r} is neither a corpus" in refused(corpus, new, *three, "--corpus", name)
    monkeypatch.setattr(running, "load_splits", lambda *_: pytest.fail("it went to work"))
    (tmp_path / "file").write_text("I am no folder")
    for out in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc")):
        assert f"cannot write to {out}: " in refused(corpus, out, *three)
    assert (tmp_path / "file").read_text() == "I am no folder"
    assert run("pretrain", "--stream", "x", "--corpus", "y", "--out", new, *three).exit_code == 2
    for name in ("save-every", "keep-every", "stop-at", "threads"):
        assert run(*command(corpus, new, *three, f"--{name}", 0)).exit_code == 2, name
    (tmp_path / "tokenizer").mkdir()
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    assert "no vocabulary at" in refused(corpus, new, *three)
    assert not new.exists()


def test_the_commit_is_that_of_the_course_wherever_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = running.current_commit()
    monkeypatch.chdir(tmp_path)
    assert running.current_commit() == here
    monkeypatch.setattr(machine, "__file__", str(ROOT / "course" / "results" / "machine.py"))
    assert running.current_commit() is None, "installed within somebody's repository"

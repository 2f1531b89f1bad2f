"""What came after 2024: the bound is that of masked diffusion, runs and rows are told apart."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from bertedu.files import read_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.inference import evaluating
from bertedu.model.variants.diffusion import diffusion_loss
from bertedu.pretraining.batches import Batch, fixed_batches
from bertedu.pretraining.next_sentence import EncodedDocument
from course.experiments import after_2024

CONFIG = BertConfig(60, 16, 2, 2, 32, 32, initializer_range=0.4)
DOCUMENTS = [EncodedDocument("s", [[5 + (7 * d + 3 * s + w) % 55 for w in range(6)]
                                   for s in range(5)]) for d in range(6)]  # fmt: skip


def model(**changes: object) -> BertForPreTraining:
    torch.manual_seed(0)
    return BertForPreTraining(BertConfig(**{**vars(CONFIG), **changes})).eval()


def test_the_bound_is_the_packages_loss_where_all_is_one_segment() -> None:
    batches = fixed_batches(DOCUMENTS, 24, 8, 60, direction="left-to-right")
    one = model()
    with torch.no_grad():  # segments are told here: make them say nothing
        one.bert.embeddings.segment.weight[1] = one.bert.embeddings.segment.weight[0]
    with evaluating(one):
        for batch in batches:
            dice = (torch.Generator().manual_seed(1), torch.Generator().manual_seed(1))
            found = after_2024.diffusion_nats(one, batch, dice[0])
            torch.testing.assert_close(found, diffusion_loss(one, batch.ids, dice[1]))


def test_a_uniform_model_pays_the_log_of_the_vocabulary_a_word_either_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(after_2024, "trained", lambda record: {})
    monkeypatch.setattr(after_2024, "DRAWS", 200)
    batches = fixed_batches(DOCUMENTS, 24, 8, 60, direction="left-to-right")
    for direction in ("left-to-right", "bidirectional"):
        even = model(direction=direction)
        for weight in (even.decoder.weight, even.decoder.bias):
            torch.nn.init.zeros_(weight)
        monkeypatch.setattr(after_2024, "load_checkpoint", lambda folder, even=even: even)
        (row,) = after_2024.bound_row("no-nsp-L4H128", batches)
        assert float(row["nats"]) == pytest.approx(torch.tensor(60.0).log().item(), rel=0.03)


def test_a_bound_looks_at_no_word_that_it_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    (batch, *_) = fixed_batches(DOCUMENTS, 24, 8, 60, direction="left-to-right")
    one, seen = model(), []
    forward = one.forward
    monkeypatch.setattr(
        one, "forward", lambda ids, *rest: (seen.append(ids), forward(ids, *rest))[1]
    )
    with evaluating(one):
        for other in (batch.ids, torch.where(batch.ids >= 5, 5, batch.ids)):
            changed = Batch(**{**vars(batch), "ids": other})
            after_2024.diffusion_nats(one, changed, torch.Generator().manual_seed(2))
    hidden = seen[0] == 4
    assert torch.equal(hidden, seen[1] == 4)
    assert hidden.any()
    assert torch.equal(seen[0][~hidden], batch.ids[~hidden])


def record(curve: list[dict[str, float]], **recipe: object) -> dict[str, object]:
    values = {"recipe": recipe, "curve": curve, "steps": 100, "tokens": 1000}
    return values | {"device": "cpu", "hardware": "x", "commit": "abc"}


def test_tables_say_whose_a_number_is(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for number, (_, seed, name) in enumerate(after_2024.BLANKS):
        curve = [{"step": s, "tokens": 10 * s, "mlm_loss": 5.0 - seed} for s in (50, 100)]
        curve[-1] |= {"dev_mlm_loss": 4.0, "dev_mlm_accuracy": number / 100}
        made = record(curve, optimizer="muon", learning_rate=1e-3, seed=seed, steps=100)
        made["init"] = record([]) if seed == 2 else None
        (runs / name).mkdir(parents=True)
        (runs / name / "training.json").write_text(json.dumps(made))
    run = CliRunner().invoke
    asked = ["blanks", "--runs", str(runs), "--out", str(tmp_path)]
    assert run(after_2024.app, asked).exit_code == 0
    rows = read_csv(tmp_path / "next_first.csv")
    assert [r["mlm_accuracy"] for r in rows] == [str(n / 100) for n in range(len(rows))]
    assert len({(r["variant"], r["seed"]) for r in rows}) == len(rows) == 12
    assert [r["steps"] for r in rows] == ["100", "100", "200"] * 4, "earlier runs count"
    out = tmp_path / "curves.csv"
    folders = [str(runs / f"next-0-{seed}") for seed in (0, 1)]
    assert run(after_2024.app, ["curves", *folders, "--out", str(out)]).exit_code == 0
    found = [(r["seed"], r["step"], r["mlm_loss"], r["dev_mlm_loss"]) for r in read_csv(out)]
    assert found == [
        ("0", "50", "5.0", ""), ("0", "100", "5.0", "4.0"),
        ("1", "50", "4.0", ""), ("1", "100", "4.0", "4.0"),
    ]  # fmt: skip
    assert {r["device"] for r in rows} == {"cpu x"}

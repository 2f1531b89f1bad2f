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
from course.experiments.ablations import PRIMARY

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
    monkeypatch.setattr(after_2024, "trained", lambda name: {})
    monkeypatch.setattr(after_2024, "DRAWS", 200)
    batches = fixed_batches(DOCUMENTS, 24, 8, 60, direction="left-to-right")
    for direction in ("left-to-right", "bidirectional"):
        even = model(direction=direction)
        for weight in (even.decoder.weight, even.decoder.bias):
            torch.nn.init.zeros_(weight)
        monkeypatch.setattr(after_2024, "load", lambda name, even=even: even)
        (row,) = after_2024.bound_row("x", batches)
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


def test_grids_compare_like_with_like() -> None:
    first, off = after_2024.GRIDS["next-first"], after_2024.GRIDS["mask-off"]
    assert first.tasks == PRIMARY
    runs = [run for variant in first.variants for run in variant.checkpoints]
    assert len(set(runs)) == len(runs) == 12
    for grid in (first, off):
        cells = [(c.task, c.setup.model, c.recipe.seed) for c in grid.cells()]
        assert len(set(cells)) == len(cells) == 3 * len(grid.variants) * len(grid.tasks)
        assert len({(c.task, c.recipe.learning_rate) for c in grid.cells()}) == len(grid.tasks)


def test_curves_say_whose_they_are(tmp_path: Path) -> None:
    for seed in (0, 1):
        folder = tmp_path / f"muon-{seed}"
        folder.mkdir()
        recipe = {"optimizer": "muon", "learning_rate": 1e-3, "seed": seed, "steps": 100}
        curve = [{"step": s, "tokens": 10 * s, "mlm_loss": 5.0 - seed} for s in (50, 100)]
        curve[-1] |= {"dev_mlm_loss": 4.0, "dev_mlm_accuracy": 0.25}
        record = {"variant": "no-nsp", "recipe": recipe, "curve": curve}
        record |= {"device": "cpu", "hardware": "x", "commit": "abc"}
        (folder / "training.json").write_text(json.dumps(record))
    out = tmp_path / "curves.csv"
    folders = [str(tmp_path / f"muon-{seed}") for seed in (0, 1)]
    result = CliRunner().invoke(after_2024.app, ["curves", *folders, "--out", str(out)])
    assert result.exit_code == 0, result.output
    rows = read_csv(out)
    assert [(r["seed"], r["step"], r["mlm_loss"], r["dev_mlm_loss"]) for r in rows] == [
        ("0", "50", "5.0", ""), ("0", "100", "5.0", "4.0"),
        ("1", "50", "4.0", ""), ("1", "100", "4.0", "4.0"),
    ]  # fmt: skip
    assert {r["device"] for r in rows} == {"cpu x"}

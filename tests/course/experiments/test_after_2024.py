"""What came after 2024: runs and rows are told apart."""

import json
from pathlib import Path

from typer.testing import CliRunner

from bertedu.files import read_csv
from course.experiments import after_2024


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

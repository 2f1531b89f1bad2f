"""Claims, runs and seeds: the table of 17 and 18 follows from the results, and only from them."""

from pathlib import Path

import pytest

from bertedu.files import Row, write_csv
from course.experiments import after_bert
from course.experiments.after_bert import Finding, findings, findings_table, per_seed
from course.results.bootstrap import Estimate
from course.results.pictures import committed

FOUND = {notebook: findings(notebook) for notebook in (17, 18)}
ALL = FOUND[17] + FOUND[18]


def test_a_finding_is_a_paired_difference_and_as_good_as_has_a_margin(tmp_path: Path) -> None:
    values = {"BigBird": (0.02, 1.02, 2.02), "full": (0.01, 1.01, 2.01)}
    values["window + random"] = (1.0, 2.1, 2.9)
    rows = [
        {"experiment": "far", "arm": arm, "seed": seed, "measure": "far", "value": value}
        for arm, some in values.items()
        for seed, value in enumerate(some)
    ]
    rows += [rows[0] | {"measure": "near", "value": 99.0}]  # of another measure
    rows += [rows[0] | {"seed": 7}]  # whose partner is not there yet

    def find(arm: str, rows: list[Row], **more: float) -> Finding:
        write_csv(tmp_path / "machines.csv", rows)
        said = {"idea": "BigBird", "year": 2020, "claimed": "…", "unit": "nats"}
        row = {"experiment": "far", "measure": "far", "arm": arm}
        return after_bert._finding(tmp_path, "machines", row, {"arm": "BigBird"}, **more, **said)

    as_good = find("full", rows, plus=0.05)
    assert as_good.found.value == pytest.approx(0.04)
    assert (as_good.found.verdict, as_good.runs) == ("supported", 3)
    gap = find("window + random", rows, scale=100)
    assert gap.found.value == pytest.approx(100 * (0.98 + 1.08 + 0.88) / 3)
    with_itself = after_bert.seed_estimate([-110, -80, -100, -100, 200])
    assert gap.same == pytest.approx(with_itself)
    start = find("window + random", [r for r in rows if r["arm"] != "BigBird"] + rows[:1])
    assert start.found.value == pytest.approx(
        (1.0 + 2.1 + 2.9) / 3 - 0.02
    )  # all less that one model
    assert start.runs == 3


def test_runs_that_all_come_to_one_number_are_at_the_ceiling_and_have_no_interval() -> None:
    """Three gaps of 1 - 0.001, times 100, are equal but for the last digit of a float."""
    (flat,) = (f for f in FOUND[18] if f.idea == "Transformer")
    ends, same = Estimate(99.9, 99.9, 99.91, 0.001), Estimate(0.0, 0.0, 0.01, 0.5)
    real = Finding("B", 2020, "…", "points", ends, 3, same)
    assert "measured: +99.9 (at the ceiling in every run) points" in str(flat)
    assert "A/A" not in str(flat)
    assert "+99.9 (+99.9 to +99.9) points, 3 seeds; A/A +0.0 to +0.0" in str(real)
    first, second = repr(findings_table([flat, real])).splitlines()[2:]
    assert first.split()[-8:] == "– supported at the ceiling in every run".split()
    assert second.endswith("supported +99.90 to +99.91")


def test_every_claim_has_three_trainings_or_says_that_it_has_one() -> None:
    assert len({(f.idea, f.claimed) for f in ALL}) == len(ALL) == 42
    for f in ALL:
        assert f.found.low <= f.found.value <= f.found.high, f
        assert f.runs >= 3 or f.idea in ("GPT-2", "GPT-3")
        assert ("a single training" in str(f)) == (f.runs == 1)
        assert (f.same is None) == (f.runs == 1 or f.found.low == f.found.high)
    same = [f.same.p for f in ALL if f.same]
    assert len(same) > 15
    assert sum(p < 0.05 for p in same) <= 1, "a model against itself: one may be by chance"


def test_runs_of_a_grid_are_compared_over_texts_and_all_its_runs() -> None:
    (found,) = (f for f in FOUND[18] if f.idea == "T5Gemma")
    rows = [r for r in committed("after_2024/ablations") if r["task"] in ("topic", "entities")]
    off, on = (per_seed(rows, "test", variant=name) for name in ("off, 1000 steps", "mask on"))
    gaps = [100 * (off[seed] - on[seed]) for seed in on]
    assert found.found.value == pytest.approx(sum(gaps) / 3, abs=0.02)
    assert found.found.high > max(gaps) or found.found.low < min(gaps)
    alone = after_bert.seed_estimate(gaps)
    assert found.found != pytest.approx(alone), "two degrees of freedom, and no texts"
    assert found.same

"""Claims, runs and seeds: the table of 17 and 18 follows from the results, and only from them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bertedu.files import Row, read_csv, write_csv
from course.experiments import after_bert
from course.experiments.after_bert import add_missing, findings, findings_table, per_seed

FOUND = {notebook: findings(notebook) for notebook in (17, 18)}


def test_a_number_for_each_seed_is_a_mean_of_the_last_look() -> None:
    rows: list[Row] = [
        {"arm": arm, "seed": seed, "operations": operations, "value": str(value)}
        for arm, seed, operations, value in (
            ("a", "1", "10", 7), ("a", "0", "10", 9), ("a", "0", "20", 1), ("a", "0", "20", 3),
            ("b", "0", "99", 5),
        )
    ]  # fmt: skip
    assert per_seed(rows, arm="a") == {"0": 2.0, "1": 7.0}
    assert list(per_seed(rows, arm="a")) == ["0", "1"]
    assert per_seed(rows, arm="b") == {"0": 5.0}


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
    write_csv(tmp_path / "machines.csv", rows)
    said = {"idea": "BigBird", "year": 2020, "claimed": "…", "unit": "nats"}
    arms = {
        arm: {"experiment": "far", "measure": "far", "arm": arm}
        for arm in ("full", "window + random")
    }
    less = {"arm": "BigBird"}
    as_good = after_bert._finding(tmp_path, "machines", arms["full"], less, plus=0.05, **said)
    assert as_good.value == pytest.approx(0.04)
    assert as_good.verdict == "supported"
    missing = after_bert._finding(
        tmp_path, "machines", arms["window + random"], less, scale=100, **said
    )
    assert missing.value == pytest.approx(100 * (0.98 + 1.08 + 0.88) / 3)
    assert (missing.runs, as_good.runs) == (3, 3)
    write_csv(
        tmp_path / "machines.csv", [row for row in rows if row["arm"] != "BigBird"] + rows[:1]
    )
    start = after_bert._finding(tmp_path, "machines", arms["window + random"], less, **said)
    assert start.value == pytest.approx((1.0 + 2.1 + 2.9) / 3 - 0.02)  # all less that one model
    assert start.runs == 3


def test_runs_that_all_come_to_one_number_are_at_the_ceiling_and_have_no_interval() -> None:
    """Three gaps of 1 - 0.001, times 100, are equal but for the last digit of a float."""
    (flat,) = (f for f in FOUND[18] if f.idea == "Transformer")
    real = after_bert.Finding("B", 2020, "…", "points", 99.9, 99.9, 99.91, 3, (0.0, 0.01))
    assert "measured: +99.9 (at the ceiling in every run) points" in str(flat)
    assert "A/A" not in str(flat)
    assert "+99.9 (+99.9 to +99.9) points, 3 seeds; A/A +0.0 to +0.0" in str(real)
    first, second = repr(findings_table([flat, real])).splitlines()[2:]
    assert first.split()[-8:] == "– supported at the ceiling in every run".split()
    assert second.endswith("supported +99.90 to +99.91")


def test_only_what_is_missing_is_run(tmp_path: Path) -> None:
    calls: list[tuple[str, int]] = []

    def run(arm: str, seed: int) -> Iterator[Row]:
        calls.append((arm, seed))
        yield {"measure": "one", "value": 1.0}
        yield {"measure": "two", "value": 2.0}

    for seeds in (1, 3, 3):
        add_missing(
            tmp_path / "some.csv",
            (
                ({"arm": arm, "seed": seed}, lambda arm=arm, seed=seed: run(arm, seed))  # type: ignore[misc]
                for seed in range(seeds)
                for arm in "ab"
            ),
        )
    assert calls == [(arm, seed) for seed in range(3) for arm in "ab"]
    rows = read_csv(tmp_path / "some.csv")
    assert len(rows) == 12
    assert list(rows[0]) == ["arm", "seed", "measure", "value", "device", "commit"]


def test_every_claim_has_three_trainings_or_says_that_it_has_one() -> None:
    found = FOUND[17] + FOUND[18]
    assert len({(f.idea, f.claimed) for f in found}) == len(found) == 31
    for f in found:
        assert f.low <= f.value <= f.high, f
        assert f.runs >= 3 or f.idea in ("GPT-2", "GPT-3")
        assert (f.same is None) == (f.runs == 1 or f.low == f.high)
    assert {f.idea for f in found} == {
        "GPT", "BERT writes", "GPT-2", "GPT-3", "RoBERTa", "XLNet", "ERNIE", "ERNIE 2.0",
        "MT-DNN", "ELECTRA", "DistilBERT", "Transformer", "Transformer-XL", "ALBERT", "ALBERT, SOP",
        "BigBird", "rotary", "ModernBERT",
    }  # fmt: skip


def test_a_model_against_itself_is_undecided() -> None:
    """The A/A test of the verdict: of some twenty, one may be decided by chance."""
    same = [f.same for f in FOUND[17] + FOUND[18] if f.same]
    assert len(same) > 20
    assert sum(not low <= 0 <= high for low, high in same) <= 1


def test_the_first_findings_by_hand() -> None:
    shares: dict[str, list[float]] = {}
    for row in read_csv(after_bert.shipped("results") / "writing.csv"):
        shares.setdefault(row["writer"], []).append(100 * float(row["sentences"]))
    gaps = [a - b for a, b in zip(shares["left to right"], shares["BERT, 16 rounds"], strict=True)]
    assert FOUND[17][0].value == pytest.approx(sum(gaps) / len(gaps))
    assert FOUND[17][0].runs == 5
    assert "supported" in repr(findings_table(FOUND[17])).splitlines()[2]


def test_the_table_has_a_line_for_each_claim() -> None:
    for found in FOUND.values():
        lines = repr(findings_table(found)).splitlines()[2:]
        assert len(lines) == len(found)
        for f, line in zip(found, lines, strict=True):
            assert line.startswith(f"{f.idea} ({f.year}): {f.claimed}")
            assert f.verdict in line
            assert f"verdict:  {f.verdict}" in str(f)

"""A study goes on where it was, and no run of it is made twice."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from bertedu.files import Row, read_csv
from course.results.study import Run, add_missing


def test_only_what_is_missing_is_run_and_a_stop_loses_no_whole_run(tmp_path: Path) -> None:
    calls: list[tuple[str, int]] = []

    def run(arm: str, seed: int) -> Iterator[Row]:
        calls.append((arm, seed))
        yield {"measure": "one", "value": 1.0}
        if calls.count(("b", 1)) == 1:
            raise KeyboardInterrupt
        yield {"measure": "two", "value": 2.0}

    plan: list[Run] = [
        ({"arm": arm, "seed": seed}, partial(run, arm, seed)) for seed in range(3) for arm in "ab"
    ]
    path = tmp_path / "new" / "some.csv"
    add_missing(path, plan[:2])
    with pytest.raises(KeyboardInterrupt):
        add_missing(path, plan)
    assert len(read_csv(path)) == 3 * 2
    for _ in range(2):
        add_missing(path, plan)
    assert calls == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("b", 1), ("a", 2), ("b", 2)]
    rows = read_csv(path)
    assert len(rows) == 6 * 2
    assert list(rows[0]) == ["arm", "seed", "measure", "value", "device", "commit"]
    assert rows[0]["device"].startswith("cpu ")
    add_missing(path, [({"arm": "c", "seed": 0}, partial(run, "c", 0))], torch.device("meta"))
    assert read_csv(path)[-1]["device"].startswith("meta ")

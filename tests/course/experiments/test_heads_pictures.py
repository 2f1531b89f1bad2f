"""The study as it is shown: the right rows, claims by interval, pictures of what is there."""

from pathlib import Path

import pytest
import torch

from bertedu.analysis.attention_heads import PATTERNS
from bertedu.analysis.probes import RELATIONS
from bertedu.files import write_csv
from course.experiments import heads_pictures as heads_report
from course.experiments.heads_pictures import (
    by_head,
    head_bars,
    interval_of,
    layer_curves,
    models,
    pattern_map,
    relation,
    relation_plot,
    results,
)
from course.results.verdicts import say


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    rows: list[dict[str, object]] = []

    def add(model: str, part: str, name: str, layer: object, head: object, value: float) -> None:
        row = {"model": model, "part": part, "layer": layer, "head": head, "statistic": name}
        rows.append(row | {"value": value, "low": value - 0.1, "high": value + 0.1})

    for model, heads in (("small", 2), ("large", 12)):
        for layer in (1, 2):
            for head in range(1, heads + 1):
                for k, name in enumerate(PATTERNS):
                    add(model, "patterns", name, layer, head, (layer + head / 100 + k) / 100)
                add(model, "heads", "lost", layer, head, layer + head / 10)
        for k, name in enumerate(RELATIONS):
            add(model, "relations", f"{name}: best head", 2, 1, 0.5 + k / 100)
            add(model, "relations", f"{name}: offset -{k + 1}", "", "", 0.3)
            add(model, "relations", f"{name}: head minus offset", 2, 1, 0.2)
        for layer in (0, 1, 2):
            add(model, "lens", "right", layer, "", layer / 10)
    write_csv(tmp_path / "results" / "heads.csv", rows)
    return tmp_path


def test_tables_stand_by_layer_and_head(folder: Path) -> None:
    table = by_head("small", "lost")
    torch.testing.assert_close(table, torch.tensor([[1.1, 1.2], [2.1, 2.2]]))
    assert by_head("large", "lost").shape == (2, 12)
    assert models("patterns") == ["small", "large"]
    assert models("nothing") == []


def test_a_relation_finds_its_own_offset(folder: Path) -> None:
    found = relation("small", RELATIONS[2])
    assert found["offset"]["statistic"] == f"{RELATIONS[2]}: offset -3"
    assert float(found["head"]["value"]) == 0.52


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.1, 0.2, "supported"),
        (-0.2, -0.1, "contradicted"),
        (-0.1, 0.1, "undecided"),
        (0, 0, "undecided"),
    ],
)
def test_claims_go_by_the_interval(
    low: float, high: float, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"value": "0", "low": str(low), "high": str(high)}
    say("it is so", *interval_of(row)[1:], digits=2)
    assert capsys.readouterr().out.startswith(f"{word:<15}it is so")


def test_what_is_missing_is_named(folder: Path) -> None:
    with pytest.raises(ValueError, match="head_study --model other"):
        results("other", "lost")


def test_pictures_show_all_heads_of_a_small_model_and_the_busiest_of_a_large(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[torch.Tensor, list[str]]] = []
    monkeypatch.setattr(
        heads_report, "heat_map", lambda axes, table, rows, columns: drawn.append((table, rows))
    )
    for model in ("small", "large"):
        pattern_map(model, "t", "alt")
    (small, rows), (large, layers) = drawn
    assert (len(rows), len(layers)) == (4, 2)
    assert rows[1] == "layer 1, head 2"
    assert float(small[1, 0]) == pytest.approx(0.0102)
    assert float(large[1, 0]) == pytest.approx(0.0212)  # head 12 of layer 2


def test_the_other_pictures_are_drawn(folder: Path) -> None:
    assert relation_plot(["small", "large"], "t", "two panels").alt == "two panels"
    assert len(head_bars("small", "lost", "x", "t", "a").png) > 5000
    one = layer_curves("small", {"h": [("right", "r")]}, ["y"], "t", "a")
    other = layer_curves("small", {"h": [("right", "r")]}, ["y"], "t", "a", scale=100)
    assert one.png != other.png

"""Table 7 beside ours: the right numbers in the right rows, and nothing hidden that is missing."""

from pathlib import Path

import pytest

from bertedu.files import write_csv
from bertedu.finetuning.finetune import FEATURES
from course.experiments import feature_pictures as module
from course.experiments.feature_pictures import PAPER, ROWS, feature_scores, table_seven


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))

    def row(model: str, method: str, mean: float, train: str = "all") -> dict[str, object]:
        about = {"task": "entities", "model": model, "method": method, "train_examples": train}
        return about | {"mean": mean, "low": mean - 0.05, "high": mean + 0.04}

    rows = [
        row("bert-L4H128", "features:last", 0.5),
        row("bert-L4H128", "features:last", 0.1, "1500"),
        row("bert-L4H128", "untrained features:last", 0.3),
        row("bert-L4H128", "fine-tuned", 0.6),
        row("bert-L4H128", "untrained", 0.2),
        row("bert-L4H128", "frozen", 0.4),
        row("minilm", "fine-tuned", 0.9),
        row("word counts", "baseline", 0.66),
    ]
    write_csv(tmp_path / "results" / "finetuning_summary.csv", rows)
    return tmp_path


def test_rows_are_those_of_the_methods() -> None:
    assert list(ROWS) == [*FEATURES, "fine-tuned"]
    assert set(PAPER) < set(ROWS)


def test_scores_of_one_model_and_its_controls(folder: Path) -> None:
    found = feature_scores("entities")
    assert {name: [round(v) for v in score] for name, score in found.items()} == {
        "features:last": [50, 45, 54],
        "untrained features:last": [30, 25, 34],
        "fine-tuned": [60, 55, 64],
        "untrained fine-tuned": [20, 15, 24],
    }
    assert list(feature_scores("entities", "minilm")) == ["fine-tuned"]


def test_the_picture_shows_each_number_in_its_row(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    real = module.Picture

    def spy(figure: object, alt: str) -> object:
        seen.append(figure)
        left, right = figure.axes  # type: ignore[attr-defined]
        texts = [
            {(round(t.xy[1]), t.get_text()) for t in axes.texts if hasattr(t, "xy")}
            for axes in (left, right)
        ]
        names = list(ROWS)
        absent = (names.index("features:concat of all"), "not in the paper")
        assert texts[0] == {absent, *((names.index(m), f"{v:.1f}") for m, v in PAPER.items())}
        assert texts[1] >= {(names.index("features:last"), "50.0"), (7, "60.0")}
        said = [t.get_text() for t in right.texts]
        assert "a list" in said
        assert [73.9, 73.9] in [list(line.get_xdata()) for line in right.lines]
        assert [73.9, 73.9] not in [list(line.get_xdata()) for line in left.lines]
        assert said.count("not run yet") == len(ROWS) - 2
        assert [t.get_text() for t in left.texts].count("not in the paper") == 1
        assert [t.get_text() for t in left.get_yticklabels()] == list(ROWS.values())
        return real(figure, alt)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "Picture", spy)
    picture = table_seven(feature_scores("entities"), "title", "what one sees", {"a list": 73.9})
    assert picture.alt == "what one sees"  # type: ignore[union-attr]
    assert len(seen) == 1

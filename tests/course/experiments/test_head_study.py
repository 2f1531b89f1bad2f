"""The study of heads: the best one chosen elsewhere, heads that are not missed, nothing twice."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from bertedu.analysis.probes import Text, read_texts, relations_in
from bertedu.files import read_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.pretraining.batches import fixed_batches
from bertedu.pretraining.evaluation import score_pairs
from bertedu.pretraining.next_sentence import encode_documents
from bertedu.text.corpus import Document
from course.experiments import head_study as heads_study
from course.experiments.head_study import (
    answers_kept,
    heads_changed,
    one_blank_each,
    relations,
    study,
    summarize,
)
from course.results.bootstrap import ratio_intervals

LINE = "The old ship of Dover was in a bay. The ship was found by John and the men of Hull."
DOCUMENTS = [Document(str(i), "ours", f"{LINE} It was {i}. {LINE}") for i in range(9)]


@pytest.fixture(scope="module")
def text(tokenizer: Tokenizer) -> Text:
    return read_texts(tokenizer, [Document("The Ship", "ours", LINE)])[0]


def test_the_best_head_is_chosen_on_other_documents(text: Text) -> None:
    """Head 2 is right on the texts chosen from, head 1 on the texts scored: the score must be 0."""
    size = len(text.tokens)
    pairs = relations_in(text)["title again"]
    (query, keys) = pairs[0]
    right, wrong = torch.full((2, size, size), 0.01), torch.full((2, size, size), 0.01)
    right[:, query, keys[0]] = wrong[:, query, keys[0] + 1] = 1
    first = torch.stack([right[0], wrong[0]])[None]
    second = torch.stack([wrong[0], right[0]])[None]
    rows: Any = relations([text] * 4, [second, first] * 2)
    found = {(row[0], row[2]): float(row[3].sum() / row[4].sum()) for row in rows if row[4].sum()}
    assert found["title again", 1] == 1
    assert found["title again", 2] == 0
    assert found["title again: best head", 2] == 0


def test_a_head_whose_values_are_zero_is_not_missed(
    model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    batches = fixed_batches(encode_documents(DOCUMENTS[:6], tokenizer), 64, 4, 8192)
    whole = score_pairs(model, batches)[0].float()
    rows = {
        (name, layer, head): float(a.sum() / b.sum())
        for name, layer, head, a, b in heads_changed(model, batches)
    }
    assert rows["word loss", "", ""] == pytest.approx(float(whole[:, 1].sum() / whole[:, 0].sum()))
    part = model.bert.encoder.layers[0].attention.value
    kept = {name: value.clone() for name, value in part.state_dict().items()}
    with torch.no_grad():
        part.weight[:8] = 0
        part.bias[:8] = 0
    idle = {
        (name, layer, head): float(a.sum() / b.sum())
        for name, layer, head, a, b in heads_changed(model, batches)
    }
    part.load_state_dict(kept)
    assert idle["loss added without the head", 1, 1] == pytest.approx(0, abs=1e-5)
    assert idle["same answer without the head", 1, 1] == 1
    assert abs(idle["loss added without the head", 1, 2]) > 1e-4


def test_other_attention_is_measured_at_the_blank(
    model: BertForPreTraining, text: Text, tokenizer: Tokenizer
) -> None:
    mask = tokenizer.token_to_id("[MASK]")
    blanks = one_blank_each([text] * 200, mask)  # so that each place has its turn
    for ids, place in blanks:
        changed = (ids != text.ids).nonzero().flatten().tolist()
        assert changed == [place]
        assert 0 < place < len(ids) - 1
        assert ids[place] == mask
    assert {place for _, place in blanks} == set(range(1, len(text.ids) - 1))
    rows = {(name, layer): values for name, layer, _, values, _ in answers_kept(model, blanks[:1])}
    assert {layer for _, layer in rows} == {1, 2, 3}
    assert float(rows["searched: attention moved", 1]) > 0.2
    assert 0 < float(rows["shuffled: attention moved", 1]) < 1
    assert float(rows["searched: same answer", 1]) in (0, 1)


# -- intervals and the file


def test_intervals_are_those_of_a_mean() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(400, 1, generator=generator)
    low, high = ratio_intervals(values, torch.ones(400, 1)).squeeze(1).tolist()
    error = float(values.std()) / 20
    assert low == pytest.approx(float(values.mean()) - 1.96 * error, abs=0.02)
    assert high == pytest.approx(float(values.mean()) + 1.96 * error, abs=0.02)


def test_a_statistic_that_was_never_asked_is_left_out() -> None:
    some = ("a", 1, 1, torch.tensor([1.0, 0, 1]), torch.ones(3))
    none = ("b", 1, 1, torch.zeros(3), torch.zeros(3))
    (row,) = summarize([some, none])
    assert (row["statistic"], row["value"], row["count"]) == ("a", 0.6667, 3)
    assert row["low"] <= row["value"] <= row["high"]


def test_what_is_measured_is_not_measured_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    documents = [Document(str(i), "ours", f"{LINE} It was {i}. {LINE}") for i in range(9)]
    monkeypatch.setattr(heads_study, "load_documents", lambda _: documents)
    monkeypatch.setattr(Document, "split", "dev")
    monkeypatch.setattr(heads_study, "load_named", lambda name: (model, tokenizer))
    asked: list[str] = []

    def recorded(*args: Any) -> Any:
        parts = study(*args)
        chosen = ("patterns", "relations", "lens")
        return {p: (lambda p=p: (asked.append(p), parts[p]())[1]) for p in chosen}

    monkeypatch.setattr(heads_study, "study", recorded)
    out = tmp_path / "heads.csv"
    heads_study.run(["one"], out)
    before = out.read_text(encoding="utf-8")
    heads_study.run(["one"], out)
    assert asked == ["patterns", "relations", "lens"]
    assert out.read_text(encoding="utf-8") == before
    heads_study.run(["two"], out)
    rows = read_csv(out)
    assert {row["model"] for row in rows} == {"one", "two"}
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows)
    assert {"seed", "commit", "device", "seconds"} <= set(rows[0])

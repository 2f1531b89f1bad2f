"""The study of heads: the best one chosen elsewhere, heads that are not missed, nothing twice."""

from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from bertedu.analysis.probes import Text, read_texts, relations_in
from bertedu.model.bert import BertForPreTraining
from bertedu.pretraining.batches import fixed_batches
from bertedu.pretraining.next_sentence import encode_documents
from bertedu.pretraining.objective import score_pairs
from bertedu.text.corpus import Document
from course.experiments import head_study
from course.experiments.head_study import answers_kept, heads_changed, one_blank_each, relations

LINE = "The old ship of Dover was in a bay. The ship was found by John and the men of Hull."
DOCUMENTS = [Document(str(i), "ours", f"{LINE} It was {i}. {LINE}") for i in range(9)]


@pytest.fixture(scope="module")
def text(tokenizer: Tokenizer) -> Text:
    return read_texts(tokenizer, [Document("The Ship", "ours", LINE)])[0]


def ratios(measured: Any) -> dict[tuple[Any, ...], float]:
    return {
        (name, layer, head): float(sums.sum() / counts.sum())
        for name, layer, head, sums, counts in measured
        if counts.sum()
    }


def test_the_best_head_is_chosen_on_other_documents(text: Text) -> None:
    """Head 2 is right on the texts chosen from, head 1 on the texts scored: the score must be 0."""
    size = len(text.tokens)
    (query, keys) = relations_in(text)["title again"][0]
    right, wrong = torch.full((2, size, size), 0.01), torch.full((2, size, size), 0.01)
    right[:, query, keys[0]] = wrong[:, query, keys[0] + 1] = 1
    first = torch.stack([right[0], wrong[0]])[None]
    second = torch.stack([wrong[0], right[0]])[None]
    found = ratios(relations([text] * 4, [second, first] * 2))
    assert found["title again", 1, 1] == 1
    assert found["title again", 1, 2] == 0
    assert found["title again: best head", 1, 2] == 0
    (rule,) = (value for (name, *_), value in found.items() if "title again: offset" in name)
    assert found["title again: head minus offset", 1, 2] == -rule


def test_a_head_whose_values_are_zero_is_not_missed(
    model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    batches = fixed_batches(encode_documents(DOCUMENTS[:6], tokenizer), 64, 4, 8192)
    whole = score_pairs(model, batches)[0].float()
    loss = float(whole[:, 1].sum() / whole[:, 0].sum())
    rows = ratios(heads_changed(model, batches))
    assert rows["word loss", "", ""] == pytest.approx(loss)
    part = model.bert.encoder.layers[0].attention.value
    kept = {name: value.clone() for name, value in part.state_dict().items()}
    part.weight.data[:8] = part.bias.data[:8] = 0
    idle = ratios(heads_changed(model, batches))
    part.load_state_dict(kept)
    for added, same in (
        ("loss added without the head", "same answer without the head"),
        ("loss added by even weights", "same answer with even weights"),
    ):
        assert idle[added, 1, 1] == pytest.approx(0, abs=1e-5)
        assert idle[same, 1, 1] == 1
        assert abs(idle[added, 1, 2]) > 1e-4


def test_other_attention_is_measured_at_the_blank(
    model: BertForPreTraining, text: Text, tokenizer: Tokenizer
) -> None:
    mask = tokenizer.token_to_id("[MASK]")
    blanks = one_blank_each([text] * 200, mask)  # so that each place has its turn
    for ids, place in blanks:
        assert (ids != text.ids).nonzero().flatten().tolist() == [place]
        assert ids[place] == mask
    assert {place for _, place in blanks} == set(range(1, len(text.ids) - 1))
    rows = ratios(answers_kept(model, blanks[:1]))
    assert {layer for _, layer, _ in rows} == {1, 2, 3}
    assert rows["searched: attention moved", 1, ""] > 0.2
    assert 0 < rows["shuffled: attention moved", 1, ""] < 1
    assert rows["searched: same answer", 1, ""] in (0, 1)


# -- intervals and the file


def test_a_part_is_a_run_of_the_study(
    monkeypatch: pytest.MonkeyPatch, model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    monkeypatch.setattr(head_study, "load_documents", lambda _: DOCUMENTS)
    monkeypatch.setattr(Document, "split", "dev")
    monkeypatch.setattr(head_study, "load_named", lambda name: (model, tokenizer))
    runs = {run["part"]: (run, make) for run, make in head_study.runs_of(["some/two"])}
    assert list(runs) == ["patterns", "relations", "probe", "heads", "lens", "other attention"]
    run, make = runs["patterns"]
    assert run["model"] == "two"
    rows = list(make())
    assert len(rows) == 3 * 2 * len(head_study.MEASURES)
    assert {row["count"] for row in rows} == {9}

"""Relations, probes, the lens and the study: small texts of our own, worked out by hand."""

from __future__ import annotations

import copy
import csv
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.analysis.probes import (
    OFFSETS,
    Text,
    control_label,
    hits_of_heads,
    hits_of_offsets,
    lens,
    probe,
    read_texts,
    relations_in,
)
from bertedu.model.bert import BertForPreTraining
from bertedu.pretraining.batches import fixed_batches
from bertedu.pretraining.evaluation import score_pairs
from bertedu.pretraining.next_sentence import encode_documents
from bertedu.results.bootstrap import ratio_intervals
from bertedu.studies import head_study as heads_study
from bertedu.studies.head_study import (
    answers_kept,
    heads_changed,
    one_blank_each,
    relations,
    study,
    summarize,
)
from bertedu.text.corpus import Document
from bertedu.text.tokenization import MASK_ID

LINE = "The old ship of Dover was in a bay. The ship was found by John and the men of Hull."


@pytest.fixture(scope="module")
def text(tokenizer: Tokenizer) -> Text:
    return read_texts(tokenizer, [Document("The Ship", "ours", LINE)])[0]


def words(text: Text, pairs: list[tuple[int, list[int]]]) -> list[tuple[str, list[str]]]:
    return [(text.tokens[query], [text.tokens[key] for key in keys]) for query, keys in pairs]


# -- texts and relations


def test_a_text_knows_which_words_had_a_capital(text: Text) -> None:
    known = {text.tokens[place]: capital for place, capital in text.capital.items()}
    assert known["john"] is True
    assert known["ship"] is known["men"] is known["the"] is False
    starts = [i for i, t in enumerate(text.tokens) if t == "the"][:2]
    assert not set(starts) & set(text.capital)  # the start of a sentence tells nothing
    assert not {".", "[CLS]", "[SEP]"} & set(known)
    assert not any(t.startswith("##") for t in known)


def test_a_long_text_is_cut_at_a_sentence(tokenizer: Tokenizer) -> None:
    (short,) = read_texts(tokenizer, [Document("x", "ours", LINE)], length=16)
    assert short.tokens[-2:] == [".", "[SEP]"]
    assert "john" not in short.tokens
    (tight,) = read_texts(tokenizer, [Document("x", "ours", LINE)], length=8)
    assert len(tight.ids) == len(tight.tokens) == len(tight.words) == 8
    assert set(tight.capital) <= set(range(2, 7))
    assert tokenizer.truncation is None
    assert tight.tokens[-1] == "[SEP]"


def test_relations_on_a_line_of_our_own(text: Text) -> None:
    pairs = relations_in(text)
    found = words(text, pairs["determiner → noun"])
    assert [(query, keys[0]) for query, keys in found] == [
        ("the", "ship"),  # not "old"
        ("a", "bay"),
        ("the", "ship"),
        ("the", "men"),
    ]
    back = pairs["noun → determiner"]
    assert {keys[0]: query for query, keys in back} == {
        query: keys[0] for query, keys in pairs["determiner → noun"]
    }
    again = pairs["title again"]
    assert words(text, again) == [("ship", ["ship"])]
    ((query, keys),) = again
    assert keys[0] < query
    for query, keys in pairs["previous word"]:
        assert max(keys) == query - 1


def test_hits_of_a_head_that_is_always_right_and_of_one_that_is_not(text: Text) -> None:
    size = len(text.tokens)
    weights = torch.zeros(1, 2, size, size)
    weights[..., 0] = 0.5  # rests on [CLS], and on itself; neither can be chosen
    weights.diagonal(dim1=-2, dim2=-1).fill_(0.45)
    pairs = relations_in(text)["previous word"]
    for query, keys in pairs:
        weights[0, 0, query, keys[-1]] = 0.4
        weights[0, 1, query, min(query + 1, size - 2)] = 0.4
    assert hits_of_heads(weights, pairs).tolist() == [[len(pairs), 0]]
    offsets = hits_of_offsets(pairs)
    assert int(offsets.max()) == len(pairs)
    assert OFFSETS[int(offsets.argmax())] == -1


def test_what_a_head_cannot_see_is_no_hit(text: Text) -> None:
    """The first word of a text has nobody on its left: all weights that are left are 0."""
    size = len(text.tokens)
    left = torch.ones(1, 1, size, size).tril()
    assert hits_of_heads(left, [(1, [2])]).tolist() == [[0]]
    left[0, 0, 1, 2] = 0.01
    assert hits_of_heads(left, [(1, [2])]).tolist() == [[1]]


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


# -- probe


def planted(separable: bool) -> tuple[list[Tensor], list[Text]]:
    """States that say whether a word had a capital, or noise; every word has both."""
    generator = torch.Generator().manual_seed(0)
    states, texts = [], []
    for number in range(30):
        capital = [bool(torch.rand((), generator=generator) < 0.5) for _ in range(12)]
        tokens = [f"w{(number + i) % 7}" for i in range(12)]
        state = torch.randn(12, 6, generator=generator)
        if separable:
            state[:, 0] = torch.tensor(capital).float() * 4
        texts.append(
            Text("t", torch.zeros(12).long(), tokens, [*range(12)], dict(enumerate(capital)))
        )
        states.append(state)
    return states, texts


def shares(found: tuple[dict[str, Tensor], Tensor]) -> dict[str, float]:
    right, asked = found
    return {name: float(each.sum() / asked.sum()) for name, each in right.items()}


def test_a_probe_finds_what_is_there_and_not_what_is_not() -> None:
    found = probe(*planted(True), train=20)
    clear, noise = shares(found), shares(probe(*planted(False), train=20))
    assert clear["probe"] > 0.95
    assert 0.35 < noise["probe"] < 0.65
    assert 0.35 < clear["look-up"] < 0.65  # the word alone says nothing here
    assert found[1].tolist() == [12] * 10  # the texts that were not learned from


def test_control_labels_belong_to_the_word() -> None:
    labels = [control_label(f"word{i}", 0.3) for i in range(2000)]
    assert labels == [control_label(f"word{i}", 0.3) for i in range(2000)]
    assert 0.25 < sum(labels) / 2000 < 0.35


def test_a_probe_that_sees_the_word_learns_the_control() -> None:
    _, texts = planted(False)
    names = sorted({t for text in texts for t in text.tokens})
    states = [torch.eye(len(names))[[names.index(t) for t in text.tokens]] for text in texts]
    found = shares(probe(states, texts, train=20))
    assert found["control"] == 1  # a label a word, and it sees which word it is


# -- lens and ablation, on the model's own measure


def test_the_lens_ends_where_the_model_does(
    model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    documents = [Document(str(i), "ours", f"{LINE} It was {i}. {LINE}") for i in range(6)]
    batches = fixed_batches(encode_documents(documents, tokenizer), 64, 4, 8192)
    found = torch.cat([lens(model, batch) for batch in batches], dim=1)
    asked, kept_as_it_is = [], 0
    for batch in batches:
        with torch.no_grad():
            scores, _ = model(batch.ids, batch.segment_ids, batch.padding_mask)
        for i, chosen in enumerate(batch.selected):
            places = [int(p) for p in chosen.nonzero() if batch.ids[i, p] == MASK_ID]
            kept_as_it_is += int(chosen.sum()) - len(places)
            labels = batch.labels[batch.selected[:i].sum() :][: int(chosen.sum())]
            right = dict(zip(chosen.nonzero().flatten().tolist(), labels.tolist(), strict=True))
            losses = [float(-scores[i, p].log_softmax(-1)[right[p]]) for p in places]
            hits = sum(int(scores[i, p].argmax()) == right[p] for p in places)
            asked.append([len(places), sum(losses), hits])
    torch.testing.assert_close(found[-1], torch.tensor(asked).float(), atol=1e-3, rtol=1e-4)
    assert kept_as_it_is > 0, "else this test would prove less"
    assert not torch.allclose(found[0, :, 1], found[-1, :, 1], atol=0.1)
    whole = score_pairs(model, batches)[0].float()
    rows = {
        (name, layer, head): float(a.sum() / b.sum())
        for name, layer, head, a, b in heads_changed(model, batches)
    }
    assert rows["word loss", "", ""] == pytest.approx(float(whole[:, 1].sum() / whole[:, 0].sum()))
    # a head whose values are zero is not missed
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


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_lens_reads_a_layer_as_if_the_model_ended_there(
    norm: str, model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    """In a pre-norm model, too: one final norm behind every layer, the input embedding included."""
    torch.manual_seed(0)
    whole = BertForPreTraining(dataclasses.replace(model.config, norm=norm)).eval()
    for value in whole.bert.encoder.final_norm.parameters():  # else two norms in a row would be one
        torch.nn.init.normal_(value)
    documents = [Document(str(i), "ours", f"{LINE} It was {i}. {LINE}") for i in range(6)]
    (batch, *_) = fixed_batches(encode_documents(documents, tokenizer), 64, 4, 8192)
    found = lens(whole, batch)
    for depth in range(len(whole.bert.encoder.layers) + 1):
        shallow = copy.deepcopy(whole)
        shallow.bert.encoder.layers = whole.bert.encoder.layers[:depth]
        assert torch.equal(found[depth], lens(shallow, batch)[-1])


def test_other_attention_is_measured_at_the_blank(
    model: BertForPreTraining, text: Text, tokenizer: Tokenizer
) -> None:
    mask = tokenizer.token_to_id("[MASK]")
    blanks = one_blank_each([text, text], mask)
    for ids, place in blanks:
        changed = (ids != text.ids).nonzero().flatten().tolist()
        assert changed == [place]
        assert 0 < place < len(ids) - 1
        assert ids[place] == mask
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
    with out.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["model"] for row in rows} == {"one", "two"}
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows)
    assert {"seed", "commit", "device", "seconds"} <= set(rows[0])

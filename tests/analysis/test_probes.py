"""Relations, probes and the lens: small texts of our own, worked out by hand."""

import copy
import dataclasses
import itertools
from dataclasses import replace

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
from bertedu.pretraining.batches import Batch, fixed_batches
from bertedu.pretraining.next_sentence import encode_documents
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


def test_relations_on_a_line_of_our_own(text: Text, tokenizer: Tokenizer) -> None:
    pairs = relations_in(text)
    found = words(text, pairs["determiner → noun"])
    assert [(query, keys[0]) for query, keys in found] == [
        ("the", "ship"),  # not "old"
        ("a", "bay"),
        ("the", "ship"),
        ("the", "men"),
    ]
    longest = "He saw the big old ship of Hull and the very big old ship of Dover."  # three words
    (more,) = read_texts(tokenizer, [Document("x", "ours", longest)])
    assert words(more, relations_in(more)["determiner → noun"]) == [("the", ["ship"])]
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


def test_hits_by_loops(text: Text) -> None:
    """The strongest key is chosen, but never [CLS], [SEP], the query or what has weight 0."""
    size = len(text.tokens)
    weights = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    weights *= weights > 0.5
    weights[..., 0] = weights[..., -1] = 2  # where many heads rest
    weights.diagonal(dim1=-2, dim2=-1).fill_(2)
    weights[0] = weights[0].tril()  # a one-way model; the first word has nobody on its left
    for pairs in (*relations_in(text).values(), [(1, [2])]):
        expected = torch.zeros(2, 3)
        for layer, head, (query, right) in itertools.product(range(2), range(3), pairs):
            free = {k: float(weights[layer, head, query, k]) for k in range(1, size - 1)}
            best = max((k for k in free if k != query), key=free.__getitem__)
            expected[layer, head] += best in right and free[best] > 0
        assert torch.equal(hits_of_heads(weights, pairs), expected)
        hits = [sum(query + offset in right for query, right in pairs) for offset in OFFSETS]
        assert hits_of_offsets(pairs).tolist() == hits
    assert {*OFFSETS} == {*range(-8, 0), *range(1, 9)}


# -- probe


def shares(found: dict[str, tuple[Tensor, Tensor]]) -> dict[str, float]:
    return {name: float(right.sum() / asked.sum()) for name, (right, asked) in found.items()}


def planted(separable: bool) -> tuple[list[Tensor], list[Text]]:
    """States that say whether a word had a capital, or noise; every word has both."""
    generator = torch.Generator().manual_seed(0)
    states, texts = [], []
    for number in range(30):
        capital = [bool(torch.rand((), generator=generator) < 0.6) for _ in range(12)]
        tokens = [f"w{(number + i) % 7}" for i in range(12)]
        state = torch.randn(12, 6, generator=generator)
        if separable:
            state[:, 0] = torch.tensor(capital).float() * 4
        texts.append(
            Text("t", torch.zeros(12).long(), tokens, [*range(12)], dict(enumerate(capital)))
        )
        states.append(state)
    return states, texts


def test_a_probe_finds_what_is_there_and_not_what_is_not() -> None:
    found = probe(*planted(True), train=20)
    clear, noise = shares(found), shares(probe(*planted(False), train=20))
    assert 0.5 < clear["majority"] < 0.95 < clear["probe"]
    assert 0.35 < noise["probe"] < 0.65
    assert 0.35 < clear["look-up"] < 0.65  # the word alone says nothing here
    assert found["probe"][1].tolist() == [12] * 10  # the texts that were not learned from
    states, texts = planted(True)
    states[-1] *= 1000  # a text that is only asked about sets no scale for the others
    for name, (right, _) in probe(states, texts, train=20).items():
        assert right[:-1].equal(found[name][0][:-1]), name


def test_words_written_both_ways_are_asked_for_by_themselves() -> None:
    """Words 0 to 3 always have one form, and only the others need more than a list of words."""
    states, texts = planted(True)
    fixed = [
        replace(
            text,
            capital={
                place: label if int(text.tokens[place][1:]) > 3 else text.tokens[place] == "w0"
                for place, label in text.capital.items()
            },
        )
        for text in texts
    ]
    for state, text in zip(states, fixed, strict=True):
        state[:, 0] = 4 * torch.tensor(list(text.capital.values())).float()
    found = probe(states, fixed, train=20)
    here = [sum(int(t[1:]) > 3 for t in text.tokens) for text in fixed[20:]]
    assert found["probe, both ways"][1].tolist() == here
    assert found["look-up, both ways"][1].tolist() == here
    rates = shares(found)
    assert rates["probe, both ways"] > 0.95
    assert rates["look-up, both ways"] < 0.65 < rates["look-up"]


def test_a_probe_that_sees_the_word_learns_the_control() -> None:
    labels = [control_label(f"word{i}", 0.3) for i in range(2000)]
    assert 0.25 < sum(labels) / 2000 < 0.35
    _, texts = planted(False)
    names = sorted({t for text in texts for t in text.tokens})
    states = [torch.eye(len(names))[[names.index(t) for t in text.tokens]] for text in texts]
    found = shares(probe(states, texts, train=20))
    assert found["control"] == 1  # a label a word, the same everywhere, and it sees which word


# -- the lens, on the model's own measure


def six_texts(tokenizer: Tokenizer) -> list[Batch]:
    documents = [Document(str(i), "ours", f"{LINE} It was {i}. {LINE}") for i in range(6)]
    return fixed_batches(encode_documents(documents, tokenizer), 64, 4, 8192)


def test_the_lens_ends_where_the_model_does(
    model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    batches = six_texts(tokenizer)
    found = torch.cat([lens(model, batch) for batch in batches], dim=1)
    asked, kept_as_it_is = [], 0
    for batch in batches:
        with torch.no_grad():
            scores, _ = model(batch.ids, batch.segment_ids, batch.padding_mask)
        labels = torch.zeros_like(batch.ids).masked_scatter(batch.selected, batch.labels)
        blank = batch.selected & (batch.ids == MASK_ID)
        kept_as_it_is += int((batch.selected & ~blank).sum())
        losses = -scores.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
        hits = scores.argmax(-1) == labels
        asked.append(torch.stack([(one * blank).sum(-1) for one in (blank, losses, hits)], dim=-1))
    torch.testing.assert_close(found[-1], torch.cat(asked).float(), atol=1e-3, rtol=1e-4)
    assert kept_as_it_is > 0, "else this test would prove less"
    assert not torch.allclose(found[0, :, 1], found[-1, :, 1], atol=0.1)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_lens_reads_a_layer_as_if_the_model_ended_there(
    norm: str, model: BertForPreTraining, tokenizer: Tokenizer
) -> None:
    """In a pre-norm model, too: one final norm behind every layer, the input embedding included."""
    torch.manual_seed(0)
    whole = BertForPreTraining(dataclasses.replace(model.config, norm=norm)).eval()
    for value in whole.bert.encoder.final_norm.parameters():  # else two norms in a row would be one
        torch.nn.init.normal_(value)
    (batch, *_) = six_texts(tokenizer)
    found = lens(whole, batch)
    for depth in range(len(whole.bert.encoder.layers) + 1):
        shallow = copy.deepcopy(whole)
        shallow.bert.encoder.layers = whole.bert.encoder.layers[:depth]
        assert torch.equal(found[depth], lens(shallow, batch)[-1])

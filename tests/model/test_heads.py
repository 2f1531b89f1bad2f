"""Heads: what each output depends on, and what it does not."""

import dataclasses

import pytest
import torch
from model_checks import CONFIG, assert_close, make_model, moved, norm_by_hand, sample_states
from torch import nn

from bertedu.model.heads import (
    ClassificationHead,
    MLMHead,
    MultipleChoiceHead,
    SpanHead,
    TaggingHead,
)


def test_the_pooler_reads_the_last_state_of_cls_alone() -> None:
    bert = make_model(CONFIG).bert
    output = bert(torch.tensor([[2, 7, 8, 9, 3], [2, 9, 8, 7, 3]]))
    first, dense = output.last[:, 0], bert.pooler.dense
    assert_close(output.pooled, torch.tanh(first @ dense.weight.T + dense.bias), "pooler")


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_rows_that_no_head_reads_are_left_out_and_nothing_changes(norm: str) -> None:
    """`selected` spares the last feed-forward layer work; scores and gradients stay the same."""
    config = dataclasses.replace(CONFIG, norm=norm, dropout=0.0)
    ids = torch.randint(5, 30, (3, 6), generator=torch.Generator().manual_seed(1))
    real = torch.arange(6) < torch.tensor([[6], [4], [5]])
    selected = torch.zeros(3, 6, dtype=torch.bool)
    selected[0, 2] = selected[1, 3] = selected[2, 0] = selected[2, 4] = True  # once at [CLS] itself

    def run(spared: bool) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
        model = make_model(config)
        words, follows = model(ids, None, real, selected if spared else None)
        words = words if spared else words[selected]
        (words.sin().sum() + follows.cos().sum()).backward()
        gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        return [words, follows], gradients

    (spared, gradients), (whole, expected) = run(True), run(False)
    for ours, theirs in zip(spared, whole, strict=True):
        assert_close(ours, theirs, norm)
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        assert_close(gradient, expected[name], name)
    rows: list[int] = []
    model = make_model(config)
    model.bert.encoder.layers[-1].feed_forward.register_forward_hook(
        lambda _m, inputs, _o: rows.append(inputs[0].numel() // config.hidden_size)
    )
    model(ids, None, real, selected)
    assert rows == [6]  # 4 selected and 3 [CLS], one of them both; not 18


def test_mlm_scores_are_products_with_the_embeddings() -> None:
    model = make_model(CONFIG)
    x = sample_states()
    hidden = norm_by_hand(nn.functional.gelu(model.mlm.transform(x)), model.mlm.norm)
    table = model.bert.embeddings.token.weight
    for word in (0, 7, 36):
        score = (hidden * table[word]).sum(-1) + model.mlm.decoder.bias[word]
        assert_close(model.mlm(x)[..., word], score, f"word {word}")
    assert model.mlm(x[0, 0]).shape == (37,)  # any number of axes before H


def test_mlm_head_shares_the_table_it_is_given() -> None:
    table = nn.Embedding(CONFIG.vocab_size, CONFIG.hidden_size)
    head = MLMHead(CONFIG, table)
    before = head(torch.ones(CONFIG.hidden_size))
    with torch.no_grad():
        table.weight[3] += 1
    changed = before != head(torch.ones(CONFIG.hidden_size))
    assert changed.nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize("labels", [1, 2, 5])
def test_classification_is_linear_in_c(labels: int) -> None:
    head = ClassificationHead(CONFIG.hidden_size, labels).double()
    pooled = sample_states()[:, 0]
    expected = pooled @ head.classifier.weight.T + head.classifier.bias
    assert expected.shape == (2, labels)
    assert_close(head(pooled), expected, "scores")


def test_dropout_before_the_classifier_in_training_only() -> None:
    pooled = torch.ones(1, CONFIG.hidden_size)
    head = ClassificationHead(CONFIG.hidden_size, 3, dropout=0.5).train()
    assert not torch.equal(head(pooled), head(pooled))
    assert torch.equal(head.eval()(pooled), head(pooled))
    plain = ClassificationHead(CONFIG.hidden_size, 3).train()
    assert torch.equal(plain(pooled), plain(pooled))  # NSP has none


def test_tags_of_a_token_depend_on_that_token_only() -> None:
    head = TaggingHead(CONFIG.hidden_size, 5).double()
    x = sample_states()
    assert head(x).shape == (2, 7, 5)
    other = x.clone()
    other[1, 4] += 1
    expected = torch.zeros(2, 7, dtype=torch.bool)
    expected[1, 4] = True
    assert torch.equal(moved(head(x), head(other)), expected)


def test_start_and_end_have_their_own_vectors() -> None:
    head = SpanHead(CONFIG.hidden_size).double()
    x = sample_states()
    starts, ends = head(x)
    assert starts.shape == ends.shape == (2, 7)
    for row, scores in enumerate((starts, ends)):
        by_hand = (x * head.classifier.weight[row]).sum(-1) + head.classifier.bias[row]
        assert_close(scores, by_hand, ("start", "end")[row])
    with torch.no_grad():
        head.classifier.bias[1] += 1
    assert torch.equal(head(x)[0], starts)
    assert_close(head(x)[1], ends + 1, "end")


def test_the_score_of_a_choice_depends_on_that_choice_only() -> None:
    head = MultipleChoiceHead(CONFIG.hidden_size).double()
    pooled = sample_states()[:, :4]  # (B, choices, H)
    scores = head(pooled)
    assert scores.shape == (2, 4)
    other = pooled.clone()
    other[0, 2] += 1
    assert (scores != head(other)).nonzero().tolist() == [[0, 2]]
    order = [3, 1, 0, 2]
    assert_close(head(pooled[:, order]), scores[:, order], "choices in another order")
    assert head(pooled[:, :1]).shape == (2, 1)  # one choice keeps its axis


def test_multiple_choice_through_the_encoder() -> None:
    """Four choices packed as a batch of their own: each score is that of the choice alone."""
    model = make_model(dataclasses.replace(CONFIG, dropout=0.0))
    head = MultipleChoiceHead(CONFIG.hidden_size).double()
    ids = torch.randint(1, 37, (2, 4, 6), generator=torch.Generator().manual_seed(3))
    pooled = model.bert(ids.flatten(0, 1)).pooled.unflatten(0, (2, 4))
    scores = head(pooled)
    for row in range(2):
        for choice in range(4):
            alone = head(model.bert(ids[row, choice][None]).pooled[:, None])
            assert_close(scores[row, choice], alone[0, 0], f"choice {choice}")

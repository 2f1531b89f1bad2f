"""Spoiled pairs: each kind spoils what it says and nothing else; the sums are right."""

import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.pretraining.next_sentence import Pair
from course.experiments.wrong_pairs import LENGTH, chance_of_next, score_kinds, word_overlap


def test_a_models_answer_does_not_depend_on_its_company() -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(BertConfig(60, 16, 2, 2, 32, LENGTH, initializer_range=0.5))
    pairs = [Pair(list(range(5, 5 + n)), list(range(20, 20 + 2 * n)), 0) for n in range(1, 15)] * 9
    together = chance_of_next(model.train(), pairs)
    alone = torch.cat([chance_of_next(model, [pair]) for pair in pairs[:14]])
    torch.testing.assert_close(together, alone.repeat(9))
    ids = torch.tensor([[2, 5, 6, 3, 20, 21, 22, 23, 3]])
    segments = torch.tensor([[0] * 4 + [1] * 5])
    expected = model.eval().nsp(model.bert(ids, segments).pooled).softmax(-1)[0, 0]
    torch.testing.assert_close(together[1], expected)


def test_word_overlap_is_the_cosine_and_knows_no_order() -> None:
    weigh = TfidfVectorizer(analyzer=lambda ids: ids).fit([[1, 2, 3], [1, 4], [1, 5, 5, 6]])
    same, none, some = Pair([2, 3], [3, 2], 0), Pair([2], [4], 0), Pair([1, 2], [1, 4], 0)
    scores = word_overlap([same, none, some, Pair([1, 4], [1, 2], 0)], weigh).tolist()
    assert scores[:2] == pytest.approx([1, 0])
    assert 0 < scores[2] == scores[3] < 0.5  # the common word weighs little


def test_shares_by_hand() -> None:
    scores = {"real": torch.tensor([0.9, 0.6, 0.4, 0.2]), "x": torch.tensor([0.1, 0.6, 0.5, 0.1])}
    first, second = score_kinds("me", scores, torch.tensor([7, 7, 9, 9]), 0.5)
    assert (first["judge"], first["kind"], first["called_next"]) == ("me", "real", 0.5)
    assert second["ranked_right"] == (1 + 0.5 + 0 + 1) / 4
    assert second["called_next"] == 0.5
    assert second["ranked_right_low"] <= 0.5 <= second["ranked_right_high"]
    assert "called_next" not in score_kinds("me", scores, torch.arange(4), None)[1]
    rival = scores | {"x": torch.tensor([0.1, 0.5, 0.5, 0.1])}  # the tie is a win; one document
    (row,) = score_kinds("me", scores, torch.zeros(4).long(), None, rival)[1:]
    for than, ahead in {"coin": 0.125, "rival": -0.125}.items():
        assert [row[f"ahead_of_{than}{end}"] for end in ("", "_low", "_high")] == [ahead] * 3

"""Three sums at the input."""

import dataclasses
import math

import model_checks as checks
import pytest
import torch

from bertedu.model.embeddings import Embeddings, sinusoidal_positions


@pytest.mark.parametrize(
    "check", [checks.check_three_sums, checks.check_segments_matter, checks.check_positions_matter]
)
def test_embeddings(check: checks.Check) -> None:
    check(checks.make_model)


def test_dropout_is_on_in_training_only() -> None:
    part = Embeddings(dataclasses.replace(checks.CONFIG, dropout=0.5)).train()
    ids = torch.arange(1, 11)[None].repeat(20, 1)
    dropped = (part(ids, torch.zeros_like(ids)) == 0).float().mean()
    assert 0.45 < float(dropped) < 0.55
    assert (part.eval()(ids, torch.zeros_like(ids)) != 0).all()


def test_sinusoids_by_hand() -> None:
    table = sinusoidal_positions(7, 10)
    for position in range(7):
        for pair in range(5):
            angle = position / 10000 ** (2 * pair / 10)
            assert float(table[position, 2 * pair]) == pytest.approx(math.sin(angle), abs=1e-6)
            assert float(table[position, 2 * pair + 1]) == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoids_of_an_odd_size() -> None:
    assert torch.equal(sinusoidal_positions(5, 7), sinusoidal_positions(5, 8)[:, :7]) is False
    assert sinusoidal_positions(5, 7).shape == (5, 7)
    near, far = (sinusoidal_positions(64, 32)[[10, i]] for i in (11, 40))
    assert float(near[0] @ near[1]) > float(far[0] @ far[1])  # near positions are alike

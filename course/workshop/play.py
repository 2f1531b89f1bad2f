"""Things to play with: a page computes every move itself, without kernel and network."""

import html
import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from textwrap import indent
from typing import Any
from urllib.parse import quote

import torch

from bertedu.analysis.fill import blank_logits
from bertedu.analysis.leak import beyond_sum, states_of
from bertedu.finetuning.finetune import load_encoder
from bertedu.finetuning.saving import FineTuned, say_answer
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_named
from bertedu.model.config import ONE_WAY
from bertedu.model.features import BertFeatures
from bertedu.model.inference import evaluating
from bertedu.model.variants.diffusion import unmask
from bertedu.optimization import scheduled_rate
from bertedu.pretraining.masking import PAPER
from bertedu.pretraining.next_sentence import IS_NEXT
from bertedu.text.fast_tokenizer import load_tokenizer, load_vocabulary
from bertedu.text.tokenization import MASK_ID, SEP_ID, WordPiece, piece_name, train_wordpiece
from course.experiments.toy_language import ToyLanguage
from course.workshop.attention_view import SCRIPT, attend
from course.workshop.machine import write_tensors, write_weights
from course.workshop.page import Told, alive

SHARED = Path(__file__).with_suffix(".js")
BERT = SHARED.with_name("bert.js")
THREE = ("bert-L4H128", "ltr-L4H128", "rtl-L4H128")  # BERT and its one-way twins
TOYS = {path.stem: path for path in sorted(SHARED.with_suffix("").glob("*.js"))}


class Playground(Told):
    """One toy on a page; where scripts may not run, its text stands there."""

    def __init__(self, toy: str, data: Mapping[str, Any], alt: str, still: str) -> None:
        """Give a toy of `TOYS` its data; ``alt`` says in a sentence what ``still``, a text, shows.

        ``weights`` in the data names files of `write_tensors`: the models that it computes with.
        """
        self.toy, self.data, self.alt, self.still = toy, data, alt, still

    def _repr_html_(self) -> str:
        files = self.data.get("weights", [])
        paths = [SHARED, *[BERT] * bool(files), TOYS[self.toy]]
        parts = [path.read_text(encoding="utf-8") for path in paths]
        if self.toy == "three_readers":  # the view has names of its own
            view = indent(SCRIPT.read_text(encoding="utf-8"), "  ")
            parts.insert(1, f"const attentionView = (() => {{\n{view}\nreturn draw;\n}})();")
        # where the weights will be; JupyterLab turns links, and links alone, into its addresses
        links = "".join(f'<a hidden href="{quote(x)}"></a>' for x in files)
        still = (
            f"<p>{html.escape(self.alt)}</p><pre>{html.escape(self.still)}</pre>"
            "<p>A still text. Run the cell in a notebook, and it becomes something to play with."
            f"{links}</p>"
        )
        begin = "if (!root.toy) start(root, data)"
        return alive("play", self.toy, self.data, still, "\n".join(parts), begin)


def longest_match(word: str = "unaffable") -> Playground:
    """Step through the cutting of a word by longest match, with the course's vocabulary."""
    vocabulary = load_vocabulary()
    cutter, start, lines = WordPiece(vocabulary), 0, []
    while start < len(word) and (end := cutter.longest_match(word, start)) > start:
        no = [piece_name(word, start, place) for place in range(len(word), end, -1)]
        lines.append(" ".join([*(f"{piece} no," for piece in no), piece_name(word, start, end)]))
        start = end
    alt = f"Longest match first cuts {word} into {' '.join(cutter.tokenize(word))}."
    data = {"vocabulary": " ".join(vocabulary), "text": word}
    return Playground("longest_match", data, alt, "\n".join([*lines, alt]))


def merge_stepper(counts: Mapping[str, int]) -> Playground:
    """Step through the merges of `train_wordpiece` on a few words, which a reader may change."""
    min_count = 2
    _, merges = train_wordpiece(counts, 10**6, min_count)
    corpus = ", ".join(f"{word} {count}" for word, count in counts.items())
    made = " ".join(m.piece for m in merges)
    alt = f"Joining the most frequent pair makes of {corpus}, in this order: {made}."
    still = "\n".join(f"{m.times:3} times  {m.left} {m.right} -> {m.piece}" for m in merges) or alt
    return Playground("merge_stepper", {"corpus": corpus, "min_count": min_count}, alt, still)


def three_vectors(words: Sequence[str], vectors: Sequence[Sequence[float]]) -> Playground:
    """Drag three words of two numbers each; the last attends to all."""
    x = torch.tensor(vectors, dtype=torch.float64)
    shares = (x @ x[-1]).softmax(-1)
    mixed = ", ".join(f"{number:.2f}" for number in (shares @ x).tolist())
    given = ", ".join(f"{s:.0%} to {w}" for s, w in zip(shares.tolist(), words, strict=True))
    alt = f"Three vectors in the plane: {words[-1]} gives {given}, and becomes ({mixed})."
    rows = zip(words, (x @ x[-1]).tolist(), shares.tolist(), strict=True)
    still = "\n".join(f"{w:<10} score {d:5.2f}  {'█' * round(20 * s)} {s:.0%}" for w, d, s in rows)
    return Playground("three_vectors", {"words": list(words), "vectors": x.tolist()}, alt, still)


def dice(text: str, seed: int = 0) -> Playground:
    """Throw the dice of masking on a sentence, and count how the throws near the probabilities."""
    words = [w for w in load_vocabulary() if w.isascii() and w.isalpha() and len(w) > 2][:600]
    mask, swap = (round(100 * share) for share in PAPER)
    data = {"text": text, "words": words, "rate": 15, "shares": [mask, swap, 100 - mask - swap]}
    alt = f"15 % of the tokens are selected: {mask} % of them become [MASK], {swap} % another."
    return Playground("dice", data | {"seed": seed}, alt, f"[CLS] {text} [SEP]\n{alt}")


def warm_up() -> Playground:
    """Choose peak, warm-up and steps, and see what that makes of Adam on a toy loss."""
    peak, warmup_share, steps = 0.5, 0.1, 200  # to begin with
    data = {"peak": peak, "warmup_share": warmup_share, "steps": steps, "seed": 440}
    rates = [scheduled_rate(step, steps, peak, warmup_share) for step in range(0, steps, 20)]
    still = "\n".join(f"{r:6.3f}  {'█' * round(30 * r / peak)}" for r in rates)
    alt = f"The rate rises to {peak:g} in {warmup_share:.0%} of {steps} steps, then falls to 0."
    return Playground("warm_up", data, alt, still)


def plug() -> Playground:
    """Pull the plug of a run of Adam on a toy loss, and go on with what you have saved."""
    alt = "A run goes on as if never stopped if weight, m and v, step and place were saved."
    return Playground("plug", {"seed": 1}, alt, "Lose one of the four, and it is another run.")


def limits(fresh: Sequence[Sequence[str]], exact: Mapping[str, float]) -> Playground:
    """Train three small readers of the toy language to their limits on ``fresh`` sentences.

    ``exact`` has the limits in nats: "left only", "right only" and "both".
    """
    language = ToyLanguage()
    after = torch.cat([language.move, language.stop[:, None]], 1)
    tables = {"start": language.start[None], "next": after, "emit": language.emit}
    data: dict[str, Any] = {"seed": 0, "words": len(language.words)}
    for name, table in tables.items():
        data[name] = [[[i, x] for i, x in enumerate(row) if x] for row in table.tolist()]
    data["fresh"] = [[language.words.index(word) for word in sentence] for sentence in fresh]
    data["limits"] = [exact[name] for name in ("left only", "right only", "both")]
    still = "left only {:.3f}\nright only {:.3f}\nboth {:.3f}".format(*data["limits"])
    return Playground("limits", data, "The lowest loss of three readers, exactly, in nats.", still)


def layer_norm(numbers: Sequence[float]) -> Playground:
    """Drag numbers, and see what layer norm makes of them and what it forgets."""
    mean = sum(numbers) / len(numbers)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in numbers) / len(numbers) + 1e-12)
    alt = f"Layer norm: mean {mean:.2f} becomes 0, standard deviation {deviation:.2f} becomes 1."
    still = "\n".join(f"{x:6.2f} -> {(x - mean) / deviation:6.2f}" for x in numbers)
    return Playground("layer_norm", {"numbers": list(numbers)}, alt, still)


def two_boxes(a: str, b: str) -> Playground:
    """Type two texts: does B follow A, and A B, as a model trained on NSP says?

    The weights are written beside the notebook, as for `Machine`; so are those of the toys below.
    """
    checkpoint = "bert-L4H128"
    model, tokenizer = load_named(checkpoint)
    data = {"weights": [write_weights(checkpoint).name], "texts": [a, b]}
    still = ""
    with evaluating(model):
        for name, pair in {"A, then B": (a, b), "B, then A": (b, a)}.items():
            encoding = tokenizer.encode(*pair)
            ids, segments = (torch.tensor([x]) for x in (encoding.ids, encoding.type_ids))
            still += f"{name}: {model(ids, segments)[1].softmax(-1)[0, IS_NEXT].item():.2f}\n"
    return Playground("two_boxes", data, f"P(IsNext) by {checkpoint}. A: {a} B: {b}", still)


def neighbors(word: str = "december", text: str = "My dog is cute.") -> Playground:
    """Type a word: whose rows of the token table are near? Type a text: what goes into BERT?

    Raises ValueError if the word has no row of its own.
    """
    checkpoint = "bert-mini"
    model, tokenizer = load_named(checkpoint)
    if (row := tokenizer.token_to_id(word)) is None:
        raise ValueError(f"{word!r} is no piece of the vocabulary: take another, such as december")
    tables = {name: x for name, x in model.state_dict().items() if name.startswith("bert.emb")}
    weights = write_tensors("bert-mini-embeddings", tables, model.config, tokenizer)
    rows = tables["bert.embeddings.token.weight"]
    rows = torch.nn.functional.normalize(rows - rows.mean(0), dim=-1)
    cosines, best = (row_of.tolist() for row_of in (rows @ rows[row]).topk(11))
    names = [str(tokenizer.id_to_token(number)) for number in best]
    still = "\n".join(f"{name:<12} {x:.2f}" for name, x in zip(names, cosines, strict=True))
    alt = f"Nearest to {word} in the token table of bert-mini: {', '.join(names[1:4])}."
    data = {"weights": [weights.name], "word": word, "text": text}
    return Playground("neighbors", data, alt, still)


def meet() -> Playground:
    """Change a word on each side of a third: does its state move beyond the sum of the two moves?

    BERT stands beside a left-to-right and a right-to-left model whose states are joined.
    """
    text, new = "the old king ruled the city at night", "river"
    words = ("king", "ruled", "night")
    still, tokenizer = "", load_tokenizer()
    encoding, new_id = tokenizer.encode(text), load_vocabulary().index(new)
    left, at, right = (encoding.tokens.index(word) for word in words)
    ids = torch.tensor(encoding.ids)
    for name, models in {"BERT": THREE[:1], "left and right, joined": THREE[1:]}.items():
        states = states_of(load_encoder("+".join(models))[0])
        beyond = beyond_sum(states, ids, at, new_id)[left, right].item()
        still += f"{name:<24}{beyond:.3f} of the state's length\n"
    files = [write_weights(name).name for name in THREE]
    alt = f"{text}: what changing {words[0]} and {words[2]} does to the state of {words[1]} "
    places = {"left": left, "at": at, "right": right}
    data = {"weights": files, "text": text, "new": new, **places}
    return Playground("meet", data, f"{alt}beyond the sum of each alone", still)


def which_word(text: str, words: tuple[str, str]) -> Playground:
    """Type a text with a blank and two words: which does BERT choose, and which its one-way twins?

    Raises ValueError if the text has not one blank, ``___``, or a word is not one word piece.
    """
    still, tokenizer, vocabulary = "", load_tokenizer(), load_vocabulary()
    if text.count("___") != 1 or not all(word in vocabulary for word in words):
        raise ValueError(f"a text with one blank, ___, and two word pieces, not {text!r}, {words}")
    one, other = map(vocabulary.index, words)
    readers = ("both sides", "left alone", "right alone")
    for reader, checkpoint in zip(readers, THREE, strict=True):
        model, _ = load_named(checkpoint)
        assert isinstance(model, BertForPreTraining)
        ((scores,), _) = blank_logits(model, tokenizer, text)
        share = (scores[other] - scores[one]).sigmoid().item()
        still += f"{reader:<12} {words[0]} {1 - share:.2f}, {words[1]} {share:.2f}\n"
    files = [write_weights(name).name for name in THREE]
    alt = f"{text} {words[0]} or {words[1]}? A reader of both sides beside two of one side"
    data = {"weights": files, "text": text, "words": [*words]}
    return Playground("which_word", data, alt, still)


def three_readers(text: str, word: str, starts: Sequence[tuple[int, int]]) -> Playground:
    """Type a sentence: who attends to whom in BERT and in its two one-way twins?

    ``starts`` has for each the layer and head that are shown at first, from 1; ``word`` is held.
    Raises ValueError if it is no token of the text.
    """
    models = dict(zip(("BERT", *ONE_WAY), THREE, strict=True))
    still = ""
    for (name, checkpoint), (layer, head) in zip(models.items(), starts, strict=True):
        encoder, tokenizer = load_encoder(checkpoint)
        assert isinstance(encoder, BertFeatures)
        one = attend(encoder.bert, tokenizer, text, name=name)
        if word not in one.tokens:
            raise ValueError(f"{word!r} is no token of {text!r}: {', '.join(one.tokens)}")
        shares = one.head(layer, head)[one.tokens.index(word)]
        most = shares.topk(min(3, len(shares)))
        told = (f"{one.tokens[i]} {shares[i]:.0%}" for i in most.indices.tolist())
        still += f"{name + ',':<15} layer {layer}, head {head}: {word} gives {', '.join(told)}\n"
    files = [write_weights(name).name for name in models.values()]
    data = {"weights": files, "names": list(models), "text": text, "word": word}
    alt = f"Attention of BERT, the left-to-right and the right-to-left model on: {text}"
    return Playground("three_readers", data | {"starts": [*map(list, starts)]}, alt, still)


def climb(word: str, text: str, senses: Mapping[str, Sequence[str]]) -> Playground:
    """Watch a word of a text climb the layers: nearer to sentences of one sense, or of the other?

    Raises ValueError if there are not two senses.
    """
    if len(senses) != 2:
        raise ValueError(f"{', '.join(senses)}: give two senses to choose from")
    lists = [[name, [*sentences]] for name, sentences in senses.items()]
    data = {"weights": [write_weights("bert-L4H128").name], "word": word, "text": text}
    still = "\n".join(f"{name}: {' '.join(sentences)}" for name, sentences in lists)
    alt = f"{word} in “{text}”: is it nearer to {' or to '.join(senses)}, layer by layer?"
    return Playground("climb", data | {"senses": lists}, alt, still)


def writer(
    checkpoint: str,
    start: str = "The river flows through",
    blanks: int = 14,
    passes: Sequence[int] = (1, 2, 4, 7, 14),
    heats: Sequence[float] = (0.4, 0.7, 1.0),
) -> Playground:
    """Let a model of masked diffusion write; words come out of order, pass by pass.

    Where its weights lie beside the page, the page writes itself, also after another beginning;
    elsewhere it has two writings of each setting, recorded. Raises ValueError as `unmask` does.
    """
    model, tokenizer = load_named(checkpoint)
    assert isinstance(model, BertForPreTraining)
    before = tokenizer.encode(start).ids[:-1]
    blank = torch.tensor([[*before, *[MASK_ID] * blanks, SEP_ID]])
    recorded: dict[str, list[tuple[str, list[int]]]] = {}
    for count, heat, order in product(passes, heats, ("surest first", "any order")):
        writings = []
        for seed in range(2):
            chance = torch.Generator().manual_seed(seed)
            surest = order == "surest first"
            pages = torch.cat([*unmask(model, blank, count, surest, heat, chance)])  # (count, S)
            when = 1 + (pages == MASK_ID).sum(dim=0)[len(before) : -1]
            words = [str(tokenizer.id_to_token(i)) for i in pages[-1, len(before) : -1].tolist()]
            writings.append((" ".join(words), when.tolist()))
        recorded[f"{count} {heat:g} {order}"] = writings
    shown = passes[-1], heats[len(heats) // 2]
    written, passed = recorded[f"{shown[0]} {shown[1]:g} surest first"][0]
    lines = (
        " ".join(w if at <= done else "·" for w, at in zip(written.split(), passed, strict=True))
        for done in range(shown[0] + 1)
    )
    data = {"weights": [write_weights(checkpoint).name], "start": start, "blanks": blanks}
    data |= {"before": tokenizer.encode(start).tokens[1:-1], "shown": shown}
    data |= {"passes": passes, "heats": heats, "recorded": recorded}
    alt = f"{checkpoint} fills {blanks} blanks after “{start}” in {shown[0]} passes, out of order."
    return Playground("writer", data, alt, "\n".join(lines))


def own_text(asked: FineTuned, *texts: str, name: str = "") -> Playground:
    """Ask a model that was fine-tuned a moment ago; ``texts`` are those of `FineTuned.ask`.

    Writes NAME.weights.js, named after the task. Raises what `ask` and `write_tensors` do, and
    ValueError if the model is not one BERT with a new layer on its last states.
    """
    said, encoder = say_answer(asked, texts, asked.ask(*texts)), asked.model.encoder
    if not isinstance(encoder, BertFeatures):
        raise ValueError(f"a page computes one BERT with a new layer, no {type(encoder).__name__}")
    tensors = {k.removeprefix("encoder."): x for k, x in asked.model.state_dict().items()}
    file = write_tensors(name or asked.task, tensors, encoder.bert.config, asked.tokenizer).name
    data = {"weights": [file], "kind": asked.kind, "labels": asked.labels, "texts": texts}
    alt = f"A model fine-tuned on {asked.task} answers to: {' | '.join(texts)}"
    return Playground("own_text", data | {"most": asked.max_length, "fresh": True}, alt, said)

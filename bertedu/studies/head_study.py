"""The study of notebook 15: what heads and layers do on held-out text, and what that is worth.

    python -m bertedu.studies.head_study                    # the two directions, and MiniLM
    python -m bertedu.studies.head_study --model bert-mini  # any checkpoint, by name or folder

Writes ``data/results/heads.csv``. What stands there is not measured again. Intervals (95 %) draw
whole documents: how far other texts might differ, not other training runs.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from tokenizers import Tokenizer
from torch import Tensor, nn
from tqdm.auto import tqdm

from bertedu.analysis.attention_heads import (
    MEASURES,
    another_attention,
    changed_attention,
    measure,
    shuffle_keys,
    spread_evenly,
    switch_off,
    total_variation,
    word_shares,
)
from bertedu.analysis.bertviz import encoder_of
from bertedu.analysis.probes import (
    OFFSETS,
    RELATIONS,
    Text,
    hits_of_heads,
    hits_of_offsets,
    lens,
    pairs_of,
    probe,
    read_texts,
    states_of,
)
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.device import default_device
from bertedu.model.loading import load_named
from bertedu.pretraining.batches import Batch, fixed_batches
from bertedu.pretraining.next_sentence import encode_documents
from bertedu.results.bootstrap import ratio_intervals
from bertedu.results.files import Row, read_csv, write_csv
from bertedu.results.origin import origin
from bertedu.text.corpus import Document, load_documents

MODELS = ("bert-L4H128", "ltr-L4H128", "minilm")
Measured = tuple[str, Any, Any, Tensor, Tensor]  # statistic, layer, head, sums and counts (N,)


# -- the parts of the study: each gives its statistics, document by document


def where_heads_look(texts: Sequence[Text], weights: Sequence[Tensor]) -> list[Measured]:
    """Every head's patterns, entropy and distance."""
    values = torch.stack([measure(w, t.tokens) for w, t in zip(weights, texts, strict=True)])
    ones = torch.ones(len(texts))
    places = product(*map(range, values.shape[1:]))
    return [(MEASURES[k], i + 1, j + 1, values[:, i, j, k], ones) for i, j, k in places]


def relations(texts: Sequence[Text], weights: Sequence[Tensor]) -> list[Measured]:
    """Every head's score on each relation, and the best head beside the best fixed offset.

    Both are chosen on every second document, and scored on the others.
    """
    rows: list[Measured] = []
    for name in RELATIONS:
        pairs = [pairs_of(text, name) for text in texts]
        asked = torch.tensor([float(len(p)) for p in pairs])
        hits = torch.stack([hits_of_heads(w, p) for w, p in zip(weights, pairs, strict=True)])
        fixed = torch.stack([hits_of_offsets(p) for p in pairs])
        layers, heads = hits.shape[1:]
        layer, head = divmod(int(hits[::2].sum(0).argmax()), heads)
        offset = int(fixed[::2].sum(0).argmax())
        test, best, rule = asked[1::2], hits[1::2, layer, head], fixed[1::2, offset]
        rows += [
            (name, i + 1, j + 1, hits[1::2, i, j], test)
            for i, j in product(range(layers), range(heads))
        ]
        rows += [
            (f"{name}: best head", layer + 1, head + 1, best, test),
            (f"{name}: offset {OFFSETS[offset]:+d}", "", "", rule, test),
            (f"{name}: head minus offset", layer + 1, head + 1, best - rule, test),
        ]
    return rows


def heads_changed(model: BertForPreTraining, batches: Sequence[Batch]) -> list[Measured]:
    """Word loss with a head switched off, and answers kept with a head spread evenly."""
    losses, answers, counts = _answers(model, batches)
    rows: list[Measured] = [("word loss", "", "", losses, counts)]
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    for layer, head in product(range(1, layers + 1), range(1, heads + 1)):
        for change, added, kept in (
            (switch_off, "loss added without the head", "same answer without the head"),
            (spread_evenly, "loss added by even weights", "same answer with even weights"),
        ):
            with changed_attention(model, change(layer, head)):
                changed, others, _ = _answers(model, batches)
            pairs = zip(answers, others, strict=True)
            same = torch.stack([(before == after).float().sum() for before, after in pairs])
            rows.append((added, layer, head, changed - losses, counts))
            rows.append((kept, layer, head, same, counts))
    return rows


@torch.no_grad()
def _answers(
    model: BertForPreTraining, batches: Sequence[Batch]
) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return loss sums (N,), the best word of each blank by sequence, number of blanks (N,)."""
    losses, answers, counts = [], [], []
    for batch in batches:
        scores = model(batch.ids, batch.segment_ids, batch.padding_mask, batch.selected)[0].float()
        loss = torch.nn.functional.cross_entropy(scores, batch.labels, reduction="none")
        sizes = batch.selected.sum(dim=1).tolist()
        losses += [part.sum() for part in torch.split(loss, sizes)]
        answers += list(torch.split(scores.argmax(-1), sizes))
        counts += sizes
    return torch.stack(losses), answers, torch.tensor(counts).float()


def layers_probed(bert: Bert, texts: Sequence[Text]) -> list[Measured]:
    """Probe every layer for capitals, beside the control task, look-up and majority."""
    states = [states_of(bert, text) for text in texts]
    train = 2 * len(texts) // 3
    rows: list[Measured] = []
    for layer in range(len(states[0])):
        probes = probe([s[layer] for s in states], texts, train)
        rows += [(f"capital: {name}", layer, "", *probes[name]) for name in ("probe", "control")]
        (right, asked), (control, _) = probes["probe"], probes["control"]
        rows.append(("capital: selectivity", layer, "", right - control, asked))
    rows += [(f"capital: {name}", "", "", *probes[name]) for name in ("look-up", "majority")]
    return rows


def layers_read(model: BertForPreTraining, batches: Sequence[Batch]) -> list[Measured]:
    """Let the word head read every layer."""
    scores = torch.cat([lens(model, batch) for batch in batches])  # (N, L + 1, 3)
    rows: list[Measured] = []
    for layer, (counts, losses, right) in enumerate(scores.permute(1, 2, 0)):
        rows.append(("lens: loss", layer, "", losses, counts))
        rows.append(("lens: right", layer, "", right, counts))
    return rows


def one_blank_each(texts: Sequence[Text], mask_id: int, seed: int = 0) -> list[tuple[Tensor, int]]:
    """Hide one word piece of each text: its ids, and the place."""
    generator = torch.Generator().manual_seed(seed)
    blanks = []
    for text in texts:
        place = int(torch.randint(1, len(text.ids) - 1, (), generator=generator))
        ids = text.ids.clone()
        ids[place] = mask_id
        blanks.append((ids, place))
    return blanks


def answers_kept(model: BertForPreTraining, blanks: Sequence[tuple[Tensor, int]]) -> list[Measured]:
    """Look for another attention in each layer that leaves the answer of a blank as it was."""
    rows: list[Measured] = []
    ones = torch.ones(len(blanks))
    for layer in range(1, model.config.num_hidden_layers + 1):
        values: dict[str, list[Tensor]] = defaultdict(list)
        for ids, place in tqdm(blanks, desc=f"other attention, layer {layer}", leave=False):
            own, new, before, after = another_attention(model, ids, place, layer, steps=40)
            shuffle = shuffle_keys(layer)
            with changed_attention(model, shuffle):
                dealt = word_shares(model, ids, place)
            for name, weights, answer in (
                ("searched", new, after),
                ("shuffled", shuffle(layer, own[None])[0], dealt),
            ):
                moved = total_variation(own, weights)  # (A, S)
                same = (before.argmax() == answer.argmax()).float()
                values[f"{name}: attention moved"].append(moved.mean())
                values[f"{name}: attention moved at the blank"].append(moved[:, place].mean())
                values[f"{name}: answer moved"].append(total_variation(before, answer))
                values[f"{name}: same answer"].append(same)
        rows += [(name, layer, "", torch.stack(some), ones) for name, some in values.items()]
    return rows


# -- the command


def study(
    model: nn.Module,
    tokenizer: Tokenizer,
    documents: Sequence[Document],
    texts: int = 200,
    blanks: int = 64,
) -> dict[str, Callable[[], list[Measured]]]:
    """Return the parts of the study of one model, each a function that measures it.

    Raises ValueError if the model is made of LSTMs, and has no heads.
    """
    bert = encoder_of(model)
    read = read_texts(tokenizer, documents, texts)

    @torch.no_grad()
    def weights() -> list[Tensor]:
        layers = (bert(text.ids[None], return_attention=True).attention for text in read)
        return [torch.cat([w for w in one if w is not None]) for one in layers]

    parts: dict[str, Callable[[], list[Measured]]] = {
        "patterns": lambda: where_heads_look(read, weights()),
        "relations": lambda: relations(read, weights()),
        "probe": lambda: layers_probed(bert, read),
    }
    if isinstance(model, BertForPreTraining):
        encoded = encode_documents(documents[:texts], tokenizer)
        batches = fixed_batches(
            encoded, 64, 16, model.config.vocab_size, direction=model.config.direction
        )
        parts |= {
            "heads": lambda: heads_changed(model, batches),
            "lens": lambda: layers_read(model, batches),
        }
        if model.config.direction == "bidirectional":
            short = read_texts(tokenizer, documents, blanks, length=32)
            mask_id = tokenizer.token_to_id("[MASK]")
            if mask_id is None:
                raise ValueError("the vocabulary has no [MASK]: there is no blank to ask for")
            hidden = one_blank_each(short, mask_id)
            parts["other attention"] = lambda: answers_kept(model, hidden)
    return parts


def run(names: Sequence[str], out: Path, texts: int = 200, blanks: int = 64) -> None:
    """Measure what is not in the file yet, part by part, and write each part as it is done."""
    documents = [d for d in load_documents("encyclopedia") if d.split == "dev"]
    for name in names:
        short = Path(name).name
        done = {(row["model"], row["part"]) for row in read_csv(out)}
        model, tokenizer = load_named(name)
        for part, measured in study(model.eval(), tokenizer, documents, texts, blanks).items():
            if (short, part) in done:
                continue
            begin = time.perf_counter()
            values = measured()
            seconds = round(time.perf_counter() - begin, 1)
            about = {"seed": 0, "seconds": seconds} | origin(default_device())
            rows = [{"model": short, "part": part} | row | about for row in summarize(values)]
            write_csv(out, [*read_csv(out), *rows])
            print(f"{short}: {part}, {len(rows)} rows, {seconds:.0f} s")


def summarize(measured: Sequence[Measured]) -> list[Row]:
    """Turn sums and counts of documents into values with intervals.

    A relation that these texts do not hold (all counts 0) has no row.
    """
    rows: list[Row] = []
    for name, layer, head, sums, counts in measured:
        if counts.sum():
            value = float(sums.double().sum() / counts.double().sum())
            low, high = ratio_intervals(sums[:, None], counts[:, None], draws=1000).T[0].tolist()
            row = {"layer": layer, "head": head, "statistic": name, "value": round(value, 4)}
            row |= {"low": round(low, 4), "high": round(high, 4), "count": int(counts.sum())}
            rows.append(row)
    return rows


def main(
    model: Annotated[
        list[str] | None, typer.Option(help="A checkpoint, a folder, or a published encoder.")
    ] = None,
    out: Annotated[Path, typer.Option(help="CSV file to add to.")] = Path("data/results/heads.csv"),
) -> None:
    """Run the study; about two minutes a model on one quiet core."""
    torch.set_num_threads(1)
    run(model or MODELS, out)


if __name__ == "__main__":
    typer.run(main)

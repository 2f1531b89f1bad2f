# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 17 · After BERT: another question
#
# **You will** let a left-to-right model and BERT write, and judge both with a language whose probabilities are known; give a model a task that it was never trained for; and compare the claims of eleven papers with small measurements.
#
# | minutes | you need | in the paper |
# |---|---|---|
# | 95: 50 to read and run, 45 for exercises | notebooks 05, 07 and 13 | section 1; then the papers named below |

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "skip"} tags=["hide-input"]
import inspect

import torch
from ipywidgets import HTML, Checkbox, FloatSlider, IntSlider
from matplotlib import pyplot as plt

import bertedu
from bertedu.analysis.fill import Guess
from bertedu.analysis.views import BLUE, GREEN, LIMIT, ORANGE, Picture, note, style
from bertedu.model.variants.generation import append_masks, fill_and_resample, generate
from bertedu.text.tokenization import CLS_ID, MASK_ID, SEP_ID
from course.exercises import check
from course.experiments import writing
from course.experiments.ablation_pictures import task_intervals
from course.experiments.ablations import GRIDS
from course.experiments.toy_language import ToyLanguage
from course.results.pictures import committed
from course.results.verdicts import VerdictTable
from course.workshop import my_bert
from course.workshop.family_tree import family_tree
from course.workshop.schematics import you_are_here
from course.workshop.widgets import Playable, bars_html

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "-"} tags=["hide-input"]
you_are_here("17")

# %% [markdown] slideshow={"slide_type": "-"}
# *Blue and thick: what this notebook is about.* The machine stays the same. The question changes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Whose child is it?
#
# Within two years there were a dozen models that are BERT with one thing changed. Most of the papers changed the data, the size and the training time as well. Here each change is made alone, in models of at most 2 million weights.

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"} tags=["hide-input"]
family_tree()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure 1. Each box gives the month of the first version and, by its color, the notebook. A line means that a model started from another one, or took its idea. Not shown: MT-DNN (Liu et al. 2019), one BERT with a head for each of several tasks, and ERNIE (Sun et al. 2019), which hides whole phrases.*

# %% [markdown] slideshow={"slide_type": "slide"}
# ## GPT: can BERT write?
#
# *The river flows through ___*. A model that reads from [left to right](glossary.md#left-to-right) knows the chance of each next word. Draw one, write it down and ask again: that is how GPT writes (Radford et al. 2018, 2019). Such a model is called *auto-regressive*, since each word is predicted from those already written. BERT, which restores a text that was damaged by masks, is a *denoising autoencoder*. People say that the first kind is for *natural language generation* (NLG), the second for *natural language understanding* (NLU).
#
# Three words with scores 2, 1, 0: [softmax](glossary.md#softmax) gives 67, 24 and 9 %. Divide the scores by a *[temperature](glossary.md#temperature)* of 0.5 first, and they are 4, 2, 0: 87, 12 and 2 %. Likely words become likelier still. *[Top-k](glossary.md#top-k)* sampling first removes all but the $k$ best words; with $k = 1$ it is called *greedy*.
#
# **1. The next [token](glossary.md#token) (★★☆, 10 minutes).** From scores $(V,)$ to chances: only the `top_k` best, their scores divided by `temperature`.

# %% slideshow={"slide_type": "fragment"}
def my_next_token(scores, temperature, top_k):
    """(V,) -> (V,) that adds up to 1."""
    ...


check.next_token(my_next_token)

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Show me</summary>
#
# ```python
# def my_next_token(scores, temperature, top_k):
#     worst = scores.topk(top_k).values[-1]
#     kept = scores.masked_fill(scores < worst, -torch.inf)
#     return (kept / temperature).softmax(-1)
# ```
#
# </details>

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your function in a loop is a writer. The package's `generate` does the same, and so does your own BERT, if it has the weights of a left-to-right model:

# %% slideshow={"slide_type": "fragment"}
next_token = check.next_token.or_ours(my_next_token)
gpt, tokenizer = bertedu.load("ltr-L4H128")
bert, _ = bertedu.load("bert-L4H128")

prompt = torch.tensor([tokenizer.encode("The river flows through").ids[:-1]])  # no [SEP]: not over
ids, dice = prompt, torch.Generator().manual_seed(4)
with torch.no_grad():
    for _ in range(20):
        scores, _ = gpt(ids)  # (1, S, V)
        chances = next_token(scores[0, -1], temperature=0.8, top_k=20)
        ids = torch.cat([ids, torch.multinomial(chances, 1, generator=dice)[None]], dim=1)
print(tokenizer.decode(ids[0].tolist()))
same = generate(gpt, prompt, 20, 0.8, 20, torch.Generator().manual_seed(4))
print(f"{int((ids != same).sum())} of {ids.numel()} tokens differ from generate's")
my_bert.load()
mine = my_bert.build("ltr-L4H128").write("The river flows through", 20, 0.8, 20, seed=4)
ours, spaces = tokenizer.decode(same[0].tolist()), str.maketrans("", "", " ")
print("and as your BERT:", mine.translate(spaces) == ours.translate(spaces))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Turn it yourself.** When does nonsense begin? With which $k$ does it never begin?

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"} tags=["hide-input"]
with torch.no_grad():
    after = gpt(prompt)[0][0, -1]  # scores of what follows "The river flows through"


def dice_page(temperature, top_k):
    """Return bars of the ten likeliest words, and twelve draws, as HTML."""
    chances = next_token(after, temperature, top_k)
    best = after.topk(10).indices.tolist()
    drawn = torch.multinomial(chances, 12, True, generator=torch.Generator().manual_seed(1))
    bars = bars_html([Guess(tokenizer.id_to_token(i), float(chances[i])) for i in best])
    words = ", ".join(tokenizer.id_to_token(i) for i in drawn.tolist())
    return f"<p><b>The river flows through …</b></p>{bars}<p>Twelve draws: {words}</p>"


heat = FloatSlider(value=1.0, min=0.1, max=4.0, step=0.1, description="temperature")
keep = IntSlider(value=1000, min=1, max=1000, description="top k")
page = HTML(dice_page(1.0, 1000))


def turned(_):
    """Draw again with what the sliders say."""
    page.value = dice_page(heat.value, keep.value)


heat.observe(turned, names="value")
keep.observe(turned, names="value")
Playable(
    [heat, keep, page],
    dice_page(1.0, 1000) + "<p>Run the cell in a notebook to move temperature and top k.</p>",
    "Two sliders, temperature and top k, with bars of the ten likeliest words after "
    "“The river flows through”, and twelve draws.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# And BERT? It knows the chance of a word *between* others. Many people append a `[MASK]`, fill it in, and append the next. But BERT has read whole texts, and takes the `[MASK]` before `[SEP]` for the *last* word. Wang and Cho (2019) begin with nothing but blanks and fill them in any order. Then each place is drawn anew, round after round.
#
# Which writes better? The toy language of notebook 05 knows the exact probability of every text:

# %% slideshow={"slide_type": "fragment"}
language = ToyLanguage()
for text in ("the dog barked", "the dog barked loudly", "the dog purred", "the dog"):
    print(f"log P = {language.log_probability(text.split()):>7.2f}   {text}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Only cats purr. Five pairs of small models wrote 500 texts each way (`python -m course.experiments.writing`). BERT was told how many words to write; the other model decided for itself. Our forecast: nine in ten of the left-to-right texts are sentences; of BERT's, a third if each place is filled once, and one in ten with `[MASK]` appended. What is yours?

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"} tags=["hide-input"]
rows = committed("writing")
writers = list(dict.fromkeys(row["writer"] for row in rows))
found = {name: [row for row in rows if row["writer"] == name] for name in writers}


def mean(name, column):
    """Return the mean of a column over the seeds of a writer."""
    return sum(float(row[column]) for row in found[name]) / len(found[name])


with style():
    figure, axes = plt.subplots(figsize=(11, 5.2))
    for place, name in enumerate(writers):
        color = ORANGE if "BERT" in name else LIMIT if name == writing.TRUE else BLUE
        shares = [100 * float(row["sentences"]) for row in found[name]]
        axes.barh(place, sum(shares) / len(shares), color=color, alpha=0.35)
        axes.plot(shares, [place] * len(shares), "o", color=color)
        words = (
            f"log P {mean(name, 'log_probability'):.1f}, {mean(name, 'different'):.0f} different"
        )
        note(axes, words, (103, place), va="center", fontsize=14)
    axes.set_yticks(range(len(writers)), writers)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set(xlim=(0, 140), xlabel="texts that are sentences of the toy language, %")
    axes.set_xticks(range(0, 101, 20))
    axes.set_title("Told the length, BERT writes sentences, too;\nwith [MASK] appended it does not")
    told = "; ".join(f"{name} {100 * mean(name, 'sentences'):.0f} %" for name in writers)
    picture = Picture(figure, f"Share of texts that are sentences, a bar for each writer: {told}.")
picture

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure 2. Each dot is one training run. On the right: the mean log probability of the sentences, and how many different texts there are among the 500.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Our forecast was wrong. BERT *can* write, once it knows how long the text will be: with each place filled once, nine texts in ten are sentences, and about as likely as real ones. Why? To draw one blank by its chances, then the next one given the first, and so on, is the [chain rule](glossary.md#chain-rule) of probability, only in another order than from the left.
#
# With `[MASK]` appended, the same weights answer another question: *which word ends this text?* The left-to-right model is the other extreme: cool or greedy, every text is a sentence, but the same few come again and again.
#
# Now real text:

# %% slideshow={"slide_type": "fragment"}
blank = torch.cat([prompt, torch.full((1, 20), MASK_ID), torch.tensor([[SEP_ID]])], dim=1)
dice = torch.Generator().manual_seed(4)
texts = {
    "left to right": generate(gpt, prompt, 20, 0.8, 20, dice),
    "BERT, appended": append_masks(bert, prompt, 20, dice),
    "BERT, once": fill_and_resample(bert, blank, 1, 0.8, 20, dice),
    "BERT, 10 rounds": fill_and_resample(bert, blank, 10, 0.8, 20, dice),
}
for name, ids in texts.items():
    print(f"{name:<17}{tokenizer.decode(ids[0].tolist())}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With `[MASK]` appended, every new word is one that could end a text. Which of the other three writes best, one text each cannot tell: try other [seeds](glossary.md#seed).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## "GPT writes, BERT understands"
#
# The second half can be tested on the tasks of notebooks 08 to 12, against two left-to-right models of notebook 13. One was pre-trained on BERT's own blanks, and differs in the attention mask alone. The other was asked for the next word, as GPT is, at as many places. There are three [pre-trainings](glossary.md#pre-training) of each, fine-tuned on the same 1,500 examples.

# %% slideshow={"slide_type": "fragment"}
asked_for = {"the same blanks": "left alone", "next words": "left alone, next words"}
VerdictTable(
    {
        f"both sides ahead of left to right, asked for {words}": task_intervals(
            GRIDS["direction"], "both sides", left
        )
        for words, left in asked_for.items()
    },
    "Points; 95 % intervals over test texts and runs, three pre-trainings of each.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Against next words, the question of GPT, one task of six is decided: *[entities](glossary.md#entity)*, where each word gets a tag, and the words after it may help. Against blanks *topic* and *answer* are decided, too, but *answer* is no sign of understanding: all three models score below a title drawn at random (notebook 10). So a second side helps to tag, here. That is less than "BERT understands", and "BERT cannot write" is wrong.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## GPT-2: a task that nobody taught
#
# A model that knows how likely a text is can answer questions that it was never trained on, *[zero-shot](glossary.md#zero-shot)*: of four endings it chooses the likeliest. [Language models](glossary.md#language-model) "begin to learn these tasks without any explicit supervision" (Radford et al. 2019, abstract).
#
# Two tokens have chances 0.25 and 0.7. Together that is 0.175, with logarithm $-1.74$, or $-0.87$ per token. Which of the two is fairer to a long ending?
#
# **2. The score of an ending (★★☆, 10 minutes).** `scores` $(S, V)$ are a left-to-right model's on `ids` $(S,)$; the ending begins at `start`. Which token does row $t$ predict?

# %% slideshow={"slide_type": "fragment"}
def my_ending_score(scores, ids, start, per_token):
    """Log probability of ids[start:], or its mean per token -> one number."""
    ...


check.ending_score(my_ending_score)

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Show me</summary>
#
# ```python
# def my_ending_score(scores, ids, start, per_token):
#     chances = scores[start - 1 : -1].log_softmax(-1)
#     each = chances.gather(1, ids[start:, None])[:, 0]
#     return each.mean() if per_token else each.sum()
# ```
#
# </details>

# %% slideshow={"slide_type": "fragment"}
ending_score = check.ending_score.or_ours(my_ending_score)
beginning = "The old king ruled the city for many years."
endings = [
    "His daughter became queen after his death, and she built a new wall around the town.",
    "It sleeps.",
    "The element has three stable isotopes.",
    "It is one of the largest species of birds in the world.",
]


def scored(begin, ending, per_token=False):
    """Log probability of an ending after token ids."""
    ids = torch.tensor(begin + tokenizer.encode(ending, add_special_tokens=False).ids)
    with torch.no_grad():
        return float(ending_score(gpt(ids[None])[0][0], ids, len(begin), per_token))


begin = tokenizer.encode(beginning).ids[:-1]
print("  whole  per token  beyond alone")
for ending in endings:
    whole, each = (scored(begin, ending, per_token) for per_token in (False, True))
    beyond = whole - scored([CLS_ID], ending)
    print(f"{whole:>7.1f} {each:>10.2f} {beyond:>+13.1f}  {ending}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Beyond alone* is what the beginning adds to the log probability of the ending. Here are all questions of `next`, with 95 % [intervals](glossary.md#interval) over articles:

# %% slideshow={"slide_type": "fragment"}
for row in committed("zero_shot", task="next"):
    share, low, high = (100 * float(row[f"accuracy{end}"]) for end in writing.ENDS)
    print(f"{row['way']:<14}{share:>5.1f} % ({low:.1f} to {high:.1f})")
tuned = committed("ablations", task="next", variant="left alone, next words")
best = max(100 * float(row["test"]) for row in tuned)
print(
    f"guessing       25.0 %\nfine-tuned on 1,500 questions, the best of {len(tuned)} runs: {best:.1f} %"
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Taken whole, the shortest ending wins; per token, the most ordinary one. Over all questions both are a little above guessing. *Beyond alone* gets half of the answers right. (The fine-tuned models have the same architecture, but half of the pre-training, so the last line is no comparison of methods.) Does it *understand*? Counting shared words, without any model, does as well. (We had expected less.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## RoBERTa: must the blanks be new each time?
#
# BERT's text was masked once, before training, in ten copies with different blanks. In 40 [epochs](glossary.md#epoch) every copy was read four times. RoBERTa (Liu et al. 2019, section 4.1) draws new blanks at every reading.
#
# In how many ways can two of eight words be hidden?

# %% slideshow={"slide_type": "fragment"}
from math import comb

ways = comb(8, 2)
print(f"two blanks among eight words: {ways} ways")
print("ten fixed copies ask at most 10 of them, four times each")
print(f"40 fresh draws ask {ways * (1 - (1 - 1 / ways) ** 40):.0f} of them on average")

# %% [markdown] slideshow={"slide_type": "fragment"}
# In code:
#
# ```python
# copies = [mask_tokens(ids, V, torch.Generator().manual_seed(k)) for k in range(10)]  # before the loop
#
# changed, selected = mask_tokens(ids, V, dice)  # or in it, at every step
# ```
#
# Now 200 toy sentences are read about a hundred times each; only the blanks differ. *Training [loss](glossary.md#loss)* is measured on blanks as in training. *Excess* is what a [held-out](glossary.md#held-out) blank costs above the exact limit. *Topic* is a task: name the hidden topic, after [fine-tuning](glossary.md#fine-tuning) on 24 sentences.

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "skip"} tags=["hide-input"]
from course.experiments.after_bert import findings, findings_table, per_seed

rows, found = committed("objectives"), findings(17)


def runs_of(idea, reader, measure):
    """What was measured, for each seed."""
    return list(per_seed(rows, idea=idea, reader=reader, measure=measure).values())


def mean_of(idea, reader, measure):
    """The mean over seeds of what was measured."""
    runs = runs_of(idea, reader, measure)
    return sum(runs) / len(runs)


def verdicts(idea):
    """What each claim of a paper came to."""
    print(*(f for f in found if f.idea == idea), sep="\n")


# %% slideshow={"slide_type": "fragment"}
print(f"{'nats per blank':<16}{'training loss':>14}{'held-out excess':>17}{'topic':>9}")
measures = ("training loss", "held-out excess", "topic from few")
for reader in ("ten fixed sets", "fresh blanks"):
    training, excess, topic = (mean_of("roberta", reader, name) for name in measures)
    print(f"{reader:<16}{training:>14.3f}{excess:>17.3f}{topic:>9.0%}")
verdicts("RoBERTa")

# %% [markdown] slideshow={"slide_type": "fragment"}
# *A/A* in a verdict is the same comparison where nothing differs: each model against itself with another seed. Its interval should contain 0. (Notebook 13 explains why it stands there.)
#
# The paper calls fresh blanks "comparable or slightly better" (table 1). *As good as* needs a margin, since no measurement shows a difference of exactly 0. Ours are 0.05 [nats](glossary.md#nat) and 1 point, as in notebook 18, and they are part of the numbers. On held-out blanks "as good" is supported; without the margin, as "better", the interval would just contain 0.
#
# RoBERTa also drops [next sentence prediction](glossary.md#next-sentence-prediction), and reads full stretches of text in place of pairs; notebook 13 has BERT without it, but on pairs. Ten times the text, its main change, cannot be tried at this size.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## XLNet: two blanks that depend on each other
#
# *The ___ slept in the ___.* Suppose it is always a dog in the yard or a cat in the kitchen, half of the time each. BERT, asked for both words at once, gives each candidate a chance of ½, and so *the dog slept in the kitchen* a chance of ¼. That never happens.
#
# BERT pays 2 ln 2 nats. A model that reads its first guess before the second pays ln 2. The difference is the **[mutual information](glossary.md#mutual-information)** of the two words. In the toy language it is known exactly:

# %% slideshow={"slide_type": "fragment"}
import torch

from bertedu.model.config import BertConfig
from bertedu.model.variants.xlnet import XLNet
from course.exercises import check
from course.experiments.toy_language import ToyLanguage, mutual_information, pair_posterior

language = ToyLanguage()
sentence = "the dog slept in the yard".split()
joint = pair_posterior(language, sentence, 1, 5)  # (W, W): both words hidden
noun, place = (language.words.index(word) for word in ("dog", "kitchen"))
apart = float(joint[noun].sum() * joint[:, place].sum())
print(f"P(dog) P(kitchen) = {apart:.4f}, P(dog, kitchen) = {joint[noun, place]:.4f}")
print(f"mutual information: {mutual_information(joint):.3f} nats")
print(
    f"of preposition and place: {mutual_information(pair_posterior(language, sentence, 3, 5)):.3f}"
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# XLNet (Yang et al. 2019, section 2) draws an *order* of reading, and predicts each word from those read before. The words stay in place; a mask inside attention says which have been read. To guess the word at place 2, a state must not know it; to help place 0 afterward, it must. So each place has two states, and both know the words read before. The **content** state also knows its own word, the **[query](glossary.md#query)** state only its own place.
#
# By hand: order `[2, 0, 1]`. Place 2's query sees nothing. Place 0's query sees place 2, its content 2 and 0. And place 1?
#
# **3. Which place may see which? (★★☆, 10 minutes).** From the order, make two tables, `True` at `[i, j]` where place $i$ may see the word of place $j$.

# %% slideshow={"slide_type": "fragment"}
def my_order_mask(order):
    """order (S,): the places as they are read -> content, query: bool (S, S) each."""
    ...


check.order_mask(my_order_mask)

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Show me</summary>
#
# ```python
# def my_order_mask(order):
#     turn = order.argsort()  # turn[i]: when place i is read
#     return turn[None, :] <= turn[:, None], turn[None, :] < turn[:, None]
# ```
#
# </details>

# %% [markdown] slideshow={"slide_type": "fragment"}
# Content and query states go through BERT's own layers together, as one row of $2S$ states, with your mask. Change a word, and see which guesses change:

# %% slideshow={"slide_type": "fragment"}
order_mask = check.order_mask.or_ours(my_order_mask)
torch.manual_seed(0)
reader = XLNet(BertConfig(40, 32, 2, 2, 64, 8, dropout=0.0, initializer_range=0.3), order_mask)
ids, order = torch.tensor([[7, 8, 9, 10]]), torch.tensor([2, 0, 3, 1])
before = reader.eval()(ids, order)
for place in order.tolist():
    changed = ids.clone()
    changed[0, place] = 30
    moved = (reader(changed, order) - before).abs().amax(dim=(0, 2)) > 1e-5
    print(f"word {place} changed: guesses move at {moved.nonzero()[:, 0].tolist()}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# No guess depends on its own word. Now to training. Two streams cost twice the operations, so there is also a BERT with twice the steps. The test: held-out pairs of blanks with a mutual information of at least 0.3 nats. BERT is also *asked twice*: the first word is filled in before the second is guessed.

# %% slideshow={"slide_type": "fragment"}
from course.experiments.objectives import pairs

twice = "BERT, equal operations"
paid = {
    "BERT, at once": mean_of("xlnet", "BERT", "at once"),
    "BERT, twice the steps, at once": mean_of("xlnet", twice, "at once"),
    "BERT, twice the steps, asked twice": mean_of("xlnet", twice, "in turn"),
    "XLNet, one pass": mean_of("xlnet", "XLNet", "in turn"),
}
chosen, exact = pairs()
for name, nats in paid.items():
    print(f"{name:<36}{nats:5.2f} nats for two words")
print(f"mutual information, exact: {exact:.2f} nats on average over {len(chosen)} pairs")
verdicts("XLNet")

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"} tags=["hide-input"]
with style():
    figure, axes = plt.subplots(figsize=(10, 3.6))
    colors = [ORANGE, ORANGE, BLUE, GREEN]
    bars = axes.barh(range(len(paid)), list(paid.values()), color=colors)
    axes.bar_label(bars, fmt="%.2f", label_type="center", color="white")
    axes.set_yticks(range(len(paid)), list(paid))
    axes.invert_yaxis()
    top = paid["BERT, twice the steps, at once"]
    axes.axvline(top - exact, color=LIMIT, linestyle="--", linewidth=1.8)
    axes.set(xlabel="loss for two blanks, nats", xlim=(0, 1.05 * max(paid.values())))
    figure.suptitle("A reader of the first blank pays less for the second", fontsize=17)
    told = "; ".join(f"{name}: {nats:.1f}" for name, nats in paid.items())
    picture = Picture(
        figure,
        f"Bars of the loss in nats for two dependent blanks. {told}. A dashed line stands at BERT's "
        f"loss at once less the exact mutual information, {exact:.1f} nats.",
    )
picture


# %% [markdown] slideshow={"slide_type": "-"}
# *Figure 3. Means over seeds. Dashed: BERT at once, twice the steps, less the mutual information.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The claim about BERT holds: asked for both at once, it overpays by about the mutual information. But when the *same BERT* is asked twice, it gets all of that back. The independence is in the question, not in the model. Asking twice costs a second pass, and XLNet needs only one. But XLNet has every order to learn, and varies a lot from seed to seed: at this size it is undecided against BERT at once, and behind BERT asked twice.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## ELECTRA: which words are not the original?
#
# BERT reads a hundred words and is asked for fifteen. ELECTRA (Clark et al. 2020) asks about all of them. A small **generator** fills the blanks. The **[detector](glossary.md#detector)**, the model that is kept, says of each word whether it is still the original. (The paper calls it the *discriminator*.)
#
# By hand. Original: *the dog barked in the yard*. The blanks are at 1 and 4. The generator writes *cat* and *the*:
#
# | | the | dog | barked | in | the | yard |
# |---|---|---|---|---|---|---|
# | blank? | | yes | | | yes | |
# | the detector reads | the | **cat** | barked | in | the | yard |
# | replaced? | no | yes | no | no | **?** | no |
#
# What belongs at the question mark? The generator happened to be right.
#
# **4. Replaced (★☆☆, 5 minutes).** From the original ids, the generator's samples and the selected places: return what the detector reads, and its labels.

# %% slideshow={"slide_type": "fragment"}
def my_replaced(original, sampled, selected):
    """All (B, S). Return ids (B, S) and labels (B, S), True where a word is another."""
    ...


check.replaced(my_replaced)

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Show me</summary>
#
# ```python
# def my_replaced(original, sampled, selected):
#     ids = torch.where(selected, sampled, original)
#     return ids, ids != original
# ```
#
# </details>

# %% slideshow={"slide_type": "fragment"}
replaced = check.replaced.or_ours(my_replaced)
text = "the dog barked in the yard".split()
known = {word: 5 + i for i, word in enumerate(language.words)}
original = torch.tensor([[known[word] for word in text]])
sampled = original.clone()
sampled[0, 1] = known["cat"]  # and "the" at 4 is sampled as it was
selected = torch.tensor([[False, True, False, False, True, False]])
ids, labels = replaced(original, sampled, selected)
for token, label in zip(ids[0].tolist(), labels[0].tolist(), strict=True):
    print(f"{language.words[token - 5]:<8}", "replaced" if label else "original")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The generator is *not* rewarded for fooling the detector. It learns from its blanks alone: a sampled word is a whole number, and no [gradient](glossary.md#gradient) flows through one.
#
# The claim is about *work*: for the same operations, including the generator's, the detector has learned more. The test is the topic from 24 sentences. The paper's control (section 3.4) is a detector asked only about the selected 15 %.

# %% slideshow={"slide_type": "fragment"}
READERS = ("MLM at 15 %", "MLM at 30 %", "ELECTRA, 15 % of words", "ELECTRA, every word")
curves = {}
for reader in READERS:
    some = [r for r in rows if r["reader"] == reader and r["measure"] == "topic from few"]
    work = sorted({float(r["operations"]) for r in some})
    curves[reader] = [
        (ops / 1e9, [100 * float(r["value"]) for r in some if float(r["operations"]) == ops])
        for ops in work
    ]
    points = ", ".join(f"{sum(v) / len(v):.0f} % at {ops:.0f}" for ops, v in curves[reader])
    print(f"{reader:<24}{points} billion operations")
excess = mean_of("electra", "ELECTRA, every word", "generator's excess")
print(f"the generator pays {excess:.2f} nats per blank above the exact limit")
verdicts("ELECTRA")

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"} tags=["hide-input"]
with style():
    figure, axes = plt.subplots(figsize=(9, 4.6))
    looks = zip(curves.items(), (ORANGE, "#CC79A7", GREEN, BLUE), "osD^", strict=True)
    for (reader, curve), color, marker in looks:
        ops = [at for at, _ in curve]
        axes.plot(
            ops, [sum(v) / len(v) for _, v in curve], color=color, marker=marker, label=reader
        )
        axes.vlines(ops, [min(v) for _, v in curve], [max(v) for _, v in curve], color=color)
    axes.set(xlabel="operations of pre-training, billions", ylabel="topic right, %", ylim=(0, 103))
    axes.axhline(100 / 6, color=LIMIT, linestyle="--")
    note(axes, "chance", (1, 100 / 6), (-4, 4), xycoords=("axes fraction", "data"), ha="right")
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    figure.suptitle("Halfway ELECTRA keeps up; at the end the masked models are ahead", fontsize=17)
    told = "; ".join(
        f"{reader}: " + ", then ".join(f"{sum(v) / len(v):.0f} %" for _, v in curve)
        for reader, curve in curves.items()
    )
    picture = Picture(figure, f"Four curves of accuracy over operations: {told}.")
picture

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure 4. Means over seeds; vertical strokes go from the worst seed to the best. The left points were measured halfway through a run; they are not the ends of shorter runs.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Here ELECTRA is level halfway, and behind at the end. We think that the generator is the reason: it often writes words that could not stand there at all, and a detector finds those without knowing what the sentence is about. The paper trains until only the meaning gives a replaced word away.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## DistilBERT: learn from answers, not from words
#
# *The ___ ran.* The text says *horse*, but it could have been *pony* or *dog*. A student that learns from a trained model is told the chances of all words at every blank: *[soft targets](glossary.md#soft-target)*. This is *[knowledge distillation](glossary.md#knowledge-distillation)*. DistilBERT (Sanh et al. 2019) has half of BERT's layers and is trained that way.
#
# By hand, at temperature 1: the teacher says ¾, ¼, 0, and the student ½, ¼, ¼. The KL divergence, which says how far the student is from the teacher, weights each word by the *teacher*'s chance: ¾ ln(¾ / ½) + ¼ ln(¼ / ¼) + 0 = 0.304. Temperature $T$ divides all scores first, so that small chances count for more. Gradients shrink by $T^2$, so the loss is multiplied by it.
#
# **5. Soft targets (★★☆, 10 minutes).** $T^2 \cdot \mathrm{KL}(\text{teacher} \,\|\, \text{student})$, the mean over $n$ places.

# %% slideshow={"slide_type": "fragment"}
def my_soft_targets(student, teacher, temperature):
    """Scores (n, V) and (n, V), a number -> a number."""
    ...


check.soft_targets(my_soft_targets)

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Show me</summary>
#
# ```python
# def my_soft_targets(student, teacher, temperature):
#     told = (teacher / temperature).softmax(-1)
#     ours = (student / temperature).log_softmax(-1)
#     theirs = (teacher / temperature).log_softmax(-1)
#     return (told * (theirs - ours)).sum(-1).mean() * temperature**2
# ```
#
# </details>

# %% slideshow={"slide_type": "fragment"}
soft_targets = check.soft_targets.or_ours(my_soft_targets)
teacher = torch.tensor([[0.75, 0.25, 1e-9]]).log()
student = torch.tensor([[0.5, 0.25, 0.25]]).log()
for temperature in (1.0, 2.0):
    print(
        f"temperature {temperature:.0f}: {float(soft_targets(student, teacher, temperature)):.3f} nats"
    )

# %% [markdown] slideshow={"slide_type": "fragment"}
# The second half of the idea: the student *begins* as layers 1 and 3 of its teacher (`every_second_layer`). The paper's third loss, on the angle between states, is left out. Four students of two layers train for 150 steps; their teacher, of four layers, for 600. Whoever begins with the teacher's layers has those 600 behind it, too:

# %% slideshow={"slide_type": "fragment"}
for reader in ("alone", "taught", "its layers", "its layers, taught"):
    name = f"student: {reader}".replace("its", "teacher's")
    print(f"{name:<36}{mean_of('distilbert', reader, 'excess'):.3f} nats above the exact limit")
print(f"{'teacher':<36}{mean_of('distilbert', 'teacher', 'excess'):.3f}")
verdicts("DistilBERT")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Half of the layers take half of the [encoder](glossary.md#encoder)'s operations. By the clock:

# %% slideshow={"slide_type": "fragment"}
faster = mean_of("distilbert", "its layers, taught", "times faster")
print(f"one pass: {faster:.1f} times as fast as the teacher")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The teacher's layers bring nearly half a nat, with all the training that is in them; such a student ends about where its teacher does. Soft targets help a student that begins with random weights. On top of the layers we see nothing of them. In the paper's table 4, too, a random start costs most, 3.69 points, but leaving out the soft targets costs nearly as much, 2.96 (the angle 1.46, the words themselves 0.31). The saving comes when the model is used, not when it is trained.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## GPT-3: examples in the prompt
#
# GPT-3 learns from examples that it only reads: "[few-shot](glossary.md#few-shot) demonstrations specified purely via text interaction" (Brown et al. 2020, abstract). No weight changes. It has 175 billion weights, ours 2 million, so for *topic* we expected chance, one in eleven. With one example:
#
# > she painted flowers for fifty years. topic: Arts. the river is 200 km long. topic:
#
# Which of eleven headings follows? The one whose log probability rises most from *topic:* alone to the whole [prompt](glossary.md#prompt) (the paper's section 2.4).

# %% slideshow={"slide_type": "fragment"}
for row in committed("zero_shot", task="topic", way=writing.WAYS[2]):
    share, low, high = (100 * float(row[f"accuracy{end}"]) for end in writing.ENDS)
    print(f"{row['examples']} examples {share:>5.1f} % ({low:.1f} to {high:.1f})")
most = 100 * float(
    next(
        row["mean"]
        for row in committed("ablations_summary", grid="direction", task="topic")
        if row["variant"] == "majority"
    )
)
print(f"one of eleven {100 / 11:.1f} %; always the most frequent {most:.1f} %")

# %% [markdown] slideshow={"slide_type": "fragment"}
# That is hardly more than always giving the most frequent answer. Four examples do not help: *not at this size*. In the paper, too, examples help small models less (Figure 1.2).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Masked diffusion: several words at a time
#
# Asked for all its blanks at once, BERT wrote each word without knowing the others. How many passes does a text need? [Masked diffusion](glossary.md#masked-diffusion) (MDLM, Sahoo et al. 2024; LLaDA, Nie et al. 2025) trains BERT for this: of each text another share is hidden, from nothing to all.
#
# By hand: at a rate of ½, two of four words are hidden, and cost 1 nat each. Weighted by 1 / rate, that is 4 nats, an estimate for the whole text. On average over all rates, no model pays less than $-\log P(\text{text})$; one with exact chances pays just that.

# %% slideshow={"slide_type": "fragment"}
from bertedu.model.variants.diffusion import diffusion_loss, unmask
from course.experiments.diffusion import least
from course.experiments.toy import toy_ids
from course.experiments.toy_readers import ExactReader

print(inspect.getsource(diffusion_loss).split('"""')[2].strip("\n"))
text = "the dog barked".split()
ids = toy_ids(language, [text]).repeat(2000, 1)
paid = diffusion_loss(ExactReader(), ids, torch.Generator().manual_seed(0)).mean()
print(f"exactly {least([text]).item():.2f} nats, told the length; by the loss {paid.item():.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# To write, begin with blanks alone. Each pass draws a word for every blank and keeps some: any, or the surest. Our forecast: one text in ten is a sentence after one pass, nine in ten with a word a pass; a fixed rate is three points behind; the surest first is better at 2 and 4 passes.

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"} tags=["hide-input"]
looks = {
    ("rate drawn", "any order"): (BLUE, "o-"),
    ("rate drawn", "the surest first"): (GREEN, "^-"),
    ("BERT, 30 % blanks", "any order"): (ORANGE, "s-"),
    ("exact chances", "any order"): (LIMIT, "--"),
    ("exact chances", "the surest first"): (LIMIT, ":"),
}
texts, steps = committed("diffusion"), ("1", "2", "4", "8")
with style():
    figure, axes = plt.subplots(figsize=(9, 4.8))
    told = []
    for (reader, order), (color, look) in looks.items():
        some = {"reader": reader, "order": order}
        shares = [
            [100 * v for v in per_seed(texts, "sentences", passes=n, **some).values()]
            for n in steps
        ]
        means = [sum(v) / len(v) for v in shares]
        axes.plot(range(4), means, look, color=color, label=f"{reader}, {order}")
        if "exact" not in reader:
            axes.vlines(range(4), [min(v) for v in shares], [max(v) for v in shares], color)
        told.append(f"{reader}, {order}: " + ", ".join(f"{m:.0f}" for m in means) + " %")
    axes.set_xticks(range(4), steps)
    axes.set(xlabel="passes; the longest text has 8 words", ylabel="sentences, %", ylim=(0, 104))
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    figure.suptitle("In one pass even exact chances rarely write a sentence", fontsize=17)
    picture = Picture(
        figure, f"Share of texts that are sentences after 1, 2, 4 and 8 passes. {'; '.join(told)}."
    )
picture

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure 5. Of 500 texts of true lengths. Lines are means over three seeds; strokes go from the worst seed to the best.*

# %% slideshow={"slide_type": "fragment"}
verdicts("MDLM")
verdicts("LLaDA")
for reader in ("left to right", "rate drawn"):
    above = list(per_seed(texts, "excess", reader=reader).values())
    print(f"{reader:<15}{sum(above) / len(above):.3f} nats per held-out word above the exact limit")


# %% [markdown] slideshow={"slide_type": "fragment"}
# No training mends the one pass: with *exact* chances, too, hardly one text in ten is a sentence, since words drawn together do not know of each other. Only passes help. Our forecast for the surest words was wrong. The surest are often those that tell little, such as *the*; the words that depend on each other are then drawn together. And on texts so short, a fixed rate is as good.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Play.** `bert-L4H128` writes, though its rate was fixed. Move *pass*, by the arrow keys too. How few passes make nonsense?

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"} tags=["hide-input"]
def passes_page(passes, shown, temperature, surest):
    """Return what stands there after each pass, the newest words in bold, as HTML."""
    dice, lines = torch.Generator().manual_seed(2), []
    before = torch.cat([prompt, torch.full((1, 14), MASK_ID), torch.tensor([[SEP_ID]])], dim=1)
    for ids in unmask(bert, before, passes, surest, temperature, dice):
        words = [
            "·" if i == MASK_ID else f"<b>{tokenizer.id_to_token(i)}</b>" if i != old
            else tokenizer.id_to_token(i)
            for i, old in zip(ids[0, 1:-1].tolist(), before[0, 1:-1].tolist(), strict=True)
        ]  # fmt: skip
        lines.append(f"<li>{' '.join(words)}</li>")
        before = ids
    return f"<ol>{''.join(lines[:shown])}</ol>"


many = IntSlider(value=7, min=1, max=14, description="passes")
upto = IntSlider(value=7, min=1, max=14, description="pass")
warmth = FloatSlider(value=0.7, min=0.1, max=2.0, step=0.1, description="temperature")
first = Checkbox(value=True, description="the surest first")
book = HTML(passes_page(7, 7, 0.7, True))


def moved(_):
    """Write again with what the sliders say."""
    book.value = passes_page(many.value, upto.value, warmth.value, first.value)


for slider in (many, upto, warmth, first):
    slider.observe(moved, names="value")
Playable(
    [many, upto, warmth, first, book],
    book.value + "<p>Run the cell in a notebook to move passes and temperature.</p>",
    "Sliders for passes and temperature, and what stands after each pass behind “The river flows "
    "through”: dots for blanks, the newest words in bold.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Text that is read again and again
#
# Text runs out, and is read more than once. Masked models "significantly outperform" next words then (Prabhudesai et al. 2025, abstract). Ours read 50, 200 or 2,000 toy sentences up to 256 times; the numbers are nats per held-out word above each model's exact limit:

# %% slideshow={"slide_type": "fragment"}
again = committed("repeated")
readings = ("4", "16", "64", "256")
print(f"{'sentences, reader':<26}" + "".join(f"{times + ' times':>11}" for times in readings))
for count, reader in dict.fromkeys((row["sentences"], row["reader"]) for row in again):
    some = {"sentences": count, "reader": reader}
    runs = [per_seed(again, "excess", readings=times, **some).values() for times in readings]
    cells = (f"{sum(v) / len(v):>11.2f}" if v else f"{'':>11}" for v in runs)
    print(f"{count + ', ' + reader:<26}" + "".join(cells).rstrip())
verdicts("repeated text")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Next words learn sooner. Then the left-to-right model knows its few texts by heart, and gets worse on others; the masked one meets each text with other blanks, and still gains. (A row is one run; its [learning rate](glossary.md#learning-rate) falls until the end.)
#
# The last change: mmBERT (Marone et al. 2025) hides 30 % first, then 15, then 5 %. Ours does the same within 600 steps:

# %% slideshow={"slide_type": "fragment"}
for reader in ("15 %", "30 %", "30, 15, 5 %"):
    print(
        f"{reader:<13}{mean_of('mmbert', reader, 'excess at 15 %'):.3f} nats above the exact limit"
    )
verdicts("mmBERT")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What is claimed, what was measured
#
# Each claim is that a number is above 0. *Supported*: the whole interval is above 0. *Undecided*: it contains 0. *Contradicted*: the whole interval is below 0. Where a paper says *as good as*, the number includes a margin. Of twenty claims about nothing, about one would look decided.

# %% jupyter={"source_hidden": true} slideshow={"slide_type": "fragment"} tags=["hide-input"]
findings_table(sorted(found, key=lambda f: f.year))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Undecided is not refuted: the papers' models had a hundred times as many weights, or more.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Break it: the bug museum
#
# This bug looks like success: a query that may see its own place, `<=` where `<` belongs.

# %% slideshow={"slide_type": "fragment"}
from torch.nn import functional as F

from bertedu.model.optimization import make_optimizer
from bertedu.model.variants.xlnet import order_masks


def museum_masks(order):
    """What is wrong with it?"""
    turn = order.argsort()
    content = turn[None, :] <= turn[:, None]
    return content, content


dice = torch.Generator().manual_seed(0)
for name, masks in (("museum", museum_masks), ("correct", order_masks)):
    torch.manual_seed(0)
    model = XLNet(BertConfig(40, 64, 2, 4, 128, 8, dropout=0.0, initializer_range=0.1), masks)
    optimizer = make_optimizer(model, 0.01)
    optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = 3e-3
    for _ in range(80):
        some = torch.randint(5, 40, (64, 6), generator=dice)  # words drawn at random
        loss = F.cross_entropy(model(some, torch.randperm(6, generator=dice)).mT, some)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    good = loss < 0.5 * torch.tensor(35.0).log()
    print(f"{name:<8}{'far below' if good else 'at'} ln 35, the least that random words can cost")

# %% [markdown] slideshow={"slide_type": "fragment"}
# No model can predict words drawn at random. If the loss is below ln 35 = 3.56, the answer is in the input. *Train on noise once: a model that is good at it cheats.*

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What is normal?
#
# - A left-to-right toy model writes almost nothing but sentences after 1,500 steps. If not, it draws from the wrong row, or it was never trained to predict the end (`train_toy(…, ends=True)`).
# - The mean log P should be like that of real texts. If it is higher, the temperature is too low, and vice versa.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Quiz
#
# Answer first, then open.
#
# **A temperature of 0.5, and every text is a sentence of the language. A better writer?**
# <details><summary>Yes, no mistakes</summary>Look at how many texts differ. Greedy makes no mistake either, and writes one text.</details>
# <details><summary>No: its texts are likelier than the language's own</summary><b>Yes.</b> Its mean log P lies above that of real sentences: rare words are missing.</details>
# <details><summary>No, T = 1 is always best</summary>It is best for matching the distribution. For one safe sentence a lower temperature is better.</details>
#
# **Two hidden words have a mutual information of 0. What does XLNet gain over BERT on them?**
# <details><summary>As much as elsewhere: it reads in all orders</summary>The order helps only if the first word says something about the second.</details>
# <details><summary>Nothing</summary><b>Yes.</b> Then P(a, b) = P(a) P(b), and two separate guesses are as good as a chain.</details>
# <details><summary>ln 2</summary>That was the case of the dog and the cat, where one word told the other completely.</details>
#
# **Four examples in the prompt do not help a model of 2 million weights. Is GPT-3's claim wrong?**
# <details><summary>Yes</summary>The claim is about 175 billion weights, and the paper says that small models gain little.</details>
# <details><summary>Not measured at this size</summary><b>Yes.</b> A finding holds where it was measured.</details>
# <details><summary>It needs forty examples, at least</summary>Ours reads 128 tokens at a time; forty examples do not fit.</details>

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# | the paper | our line |
# |---|---|
# | "without any explicit supervision" (GPT-2, abstract) | `ending_score(scores, ids, start)`, the highest of four |
# | "all permutations of the factorization order" (XLNet, abstract) | `order_mask(order)`, a content and a query state for each place |
#
# **Next:** [notebook 18](18_after_bert_another_machine.ipynb) changes the machine and keeps the question.

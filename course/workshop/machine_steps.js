// The steps of the machine: what each says, its formula, its lines of the package, what it draws.

const TOKENS = "bert.embeddings.token.weight";
const two = (value) => value.toFixed(2).replace("-", "−").replace(/^−(0\.00)$/, "$1");
const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const few = (vector, count = 3) => Array.from(vector.subarray(0, count), two);
const many = (number) => number.toLocaleString("en-US");

// `c` is what stands on the board: bert, trace (of bert.run), made (its layer), layer, head and token
// (from 0), word (the token), n tokens of H numbers, d for a head, mlm and guesses (the head that
// guesses words), best (the token that gets most attention); and the ways to draw.
const ATTENTION = "model/attention.py", ENCODER = "model/encoder.py";
const STEPS = [
  {
    part: "input", name: "ids",
    title: (c) => `The network never sees “${c.word}”, only the number ${c.ids[c.token]}`,
    says: (c) => `The text is cut into ${c.n} pieces, with [CLS] before and [SEP] behind. A piece `
      + `is known by its place in a list of ${many(c.bert.vocab.length)}.`,
    formula: (c) => `id(${c.word}) = ${c.ids[c.token]}`,
    python: ["analysis/fill.py", 'encoding = tokenizer.encode(BLANK.sub("[MASK]", text))'],
    draw(c) {
      const cards = make(c.board, "div", { class: "cards" });
      c.tokens.forEach((token, i) => {
        const card = make(cards, "div", i === c.token ? { class: "picked" } : {});
        make(card, "div", { class: "mono" }, token);
        make(card, "b", { class: "mono" }, c.ids[i]);
      });
    },
  },
  {
    part: "input", name: "embedding sum",
    title: () => "Which piece, in which text, where: three vectors, added",
    says: (c) => `Row ${c.ids[c.token]} of the token table, row ${c.segments[c.token]} of the `
      + `segment table, row ${c.token} of the position table; ${c.H} numbers each.`,
    formula: (c) =>
      `x = token[${c.ids[c.token]}] + segment[${c.segments[c.token]}] + position[${c.token}]`,
    python: ["model/embeddings.py", "x = self.token(ids)", "x = x + self.segment(segment_ids)",
      "x = x + self.position.weight[: ids.shape[1]]"],
    draw: (c) => c.strips([
      ["", `token ${c.word}`, c.at(c.trace.token)],
      ["+", "segment A", c.at(c.trace.segment)],
      ["+", `position ${c.token}`, c.at(c.trace.position)],
      ["=", "sum", c.at(c.trace.sum)],
    ]),
  },
  {
    part: "input", name: "layer norm",
    title: () => "Layer norm: every vector gets the same mean and standard deviation",
    says: (c) => {
      const { mean, spread } = meanAndSpread(c.at(c.trace.sum), c.bert.config.eps);
      return `The ${c.H} numbers of “${c.word}” have mean μ = ${two(mean)} and standard `
        + `deviation σ = ${two(spread)}. Subtract, divide. Then γ and β, learned, one of each for `
        + "every place in the vector.";
    },
    formula: () => "y = γ · (x − μ) / σ + β",
    python: ["model/embeddings.py", "return self.dropout(self.norm(x))"],
    draw(c) {
      c.strips([["", "sum", c.at(c.trace.sum)]]);
      c.normed("sum", c.at(c.trace.sum), "bert.embeddings.norm", c.at(c.trace.states[0]));
    },
  },
  {
    part: "head", name: "query, key, value",
    title: (c) => `Head ${c.head + 1} makes three vectors out of “${c.word}”`,
    says: (c) => "Three matrices, learned. The query is what this head compares with, the key is "
      + `what it is compared by, the value is what it hands on. ${c.H} numbers become ${c.d} for `
      + "each.",
    formula: () => "q = x W_Q + b_Q    k = x W_K + b_K    v = x W_V + b_V",
    python: [ATTENTION,
      "query, key, value = (self.split_heads(p(x)) for p in (self.query, self.key, self.value))"],
    draw(c) {
      c.strips([["", "x", c.at(c.made.x)]]);
      c.strips(["query", "key", "value"].map((name) => ["→", name, c.part(c.made[name])]));
    },
  },
  {
    part: "head", name: "scores",
    title: (c) => `The query of “${c.word}” meets every key`,
    says: (c) => {
      const q = c.part(c.made.query), k = c.part(c.made.key, c.best), score = c.score(c.best);
      return `With “${c.tokens[c.best]}”: ${two(q[0])} · ${two(k[0])} + ${two(q[1])} · ${two(k[1])} `
        + `+ …, ${c.d} products, add up to ${two(score)}. Divided by √${c.d}: `
        + `${two(score / Math.sqrt(c.d))}. Without the division, scores grow with d.`;
    },
    formula: () => "score = q · k / √d",
    python: [ATTENTION, "scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])"],
    draw(c) {
      c.strips([["", "query", c.part(c.made.query)]]);
      c.strips(c.tokens.map((token, k) => [k === c.token ? "▸" : "", token, c.part(c.made.key, k),
        c.seen(k) ? [two(c.score(k)), two(c.score(k) / Math.sqrt(c.d))] : ["hidden", "−∞"]]),
        ["the keys", "q · k", "÷ √d"]);
    },
  },
  {
    part: "head", name: "weights (softmax)",
    title: (c) =>
      `“${c.word}” gives ${percent(c.share(c.best))} of its attention to “${c.tokens[c.best]}”`,
    says: (c) => "e to the power of each score, divided by the sum of them all: so the "
      + `attention weights of a row add up to 1. e^${two(c.score(c.best) / Math.sqrt(c.d))} is `
      + `${percent(c.share(c.best))} of that sum.`,
    formula: () => "weight(k) = exp(score(k)) / Σ exp(score)",
    python: [ATTENTION, "return scores.softmax(dim=-1)"],
    draw(c) {
      const beside = make(c.board, "div", { class: "beside" });
      c.bars(c.tokens.map((token, k) => [token, c.share(k),
        c.seen(k) ? percent(c.share(k)) : "hidden", k === c.token]), beside);
      c.map(beside);
    },
  },
  {
    part: "head", name: "mixture",
    title: (c) =>
      `What “${c.word}” takes home: ${percent(c.share(c.best))} “${c.tokens[c.best]}”, and the rest`,
    says: (c) => `Every value, times its weight, added up: ${c.d} numbers again, but now made of the `
      + "whole text.",
    formula: () => "mixture = Σ weight(k) · v(k)",
    python: [ATTENTION, "return self.join_heads(weights @ self.split_heads(self.value(x)))"],
    draw: (c) => c.strips([
      ...c.tokens.map((token, k) => [k ? "+" : "", `${percent(c.share(k)).padStart(6)} ${token}`,
        c.part(c.made.value, k).map((value) => value * c.share(k))]),
      ["=", "mixture", c.part(c.made.mixed)],
    ]),
  },
  {
    part: "layer", name: "join heads",
    title: (c) => `${c.bert.config.heads} heads side by side, and one more matrix`,
    says: (c) => `${c.bert.config.heads} mixtures of ${c.d} make ${c.H} numbers. The output matrix `
      + "lets the heads mix: until here, none of them has met the others.",
    formula: () => "out = [mixture_1, mixture_2, …] W_O + b_O",
    python: [ATTENTION, "return self.output(x.transpose(1, 2).flatten(2))"],
    draw(c) {
      c.strips([...Array(c.bert.config.heads).keys()].map((head) =>
        [head === c.head ? "▸" : "", `mixture ${head + 1}`, ...c.padded(head)]));
      c.strips([["", "side by side", c.at(c.made.mixed)], ["→", "out", c.at(c.made.joined)]]);
    },
  },
  {
    part: "layer", name: "add & norm",
    title: (c) => `“${c.word}” keeps what it was, and adds what it heard`,
    says: () => "The residual: attention does not replace the vector, it moves it. Then layer norm.",
    formula: () => "y = LayerNorm(x + out)",
    python: [ENCODER, "x = self.attention_norm(x + self.dropout(mixed))"],
    draw(c) {
      c.strips([["", "x", c.at(c.made.x)], ["+", "out", c.at(c.made.joined)],
        ["=", "sum", c.at(c.made.sum)]]);
      c.normed("sum", c.at(c.made.sum), `${c.name}.attention_norm`, c.at(c.made.middle));
    },
  },
  {
    part: "layer", name: "feed-forward",
    title: (c) => `“${c.word}” by itself: up to ${c.wide} numbers, a bend, and back`,
    says: (c) => `Of the ${c.wide} numbers, ${c.at(c.made.inner, c.wide).filter((v) => v < 0).length} `
      + "are below 0. GELU leaves next to nothing of them, and those above 0 nearly as they are. "
      + "No other word has a part in this.",
    formula: () => "out = GELU(y W_1 + b_1) W_2 + b_2",
    python: [ENCODER, "return self.output(F.gelu(self.intermediate(x)))"],
    draw(c) {
      c.strips([["", "y", c.at(c.made.middle)]]);
      c.strips([["→", "· W₁ + b₁", c.at(c.made.inner, c.wide)],
        ["→", "GELU", c.at(c.made.bent, c.wide)]]);
      c.strips([["→", "· W₂ + b₂", c.at(c.made.fed)]]);
    },
  },
  {
    part: "layer", name: "add & norm",
    title: (c) => c.layer + 1 < c.bert.config.layers
      ? `This is “${c.word}” as layer ${c.layer + 2} will read it`
      : `This is “${c.word}” after the last layer`,
    says: () => "Again a sum and a layer norm. Every layer does the same, with matrices of its own.",
    formula: () => "x′ = LayerNorm(y + out)",
    python: [ENCODER, "x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))"],
    draw(c) {
      c.strips([["", "y", c.at(c.made.middle)], ["+", "out", c.at(c.made.fed)],
        ["=", "sum", c.at(c.made.last)]]);
      c.normed("sum", c.at(c.made.last), `${c.name}.feed_forward_norm`, c.at(c.made.out));
    },
  },
  {
    part: "output", name: "transform",
    title: (c) => `“${c.word}” after the last layer, made comparable with words`,
    says: () => "One matrix, GELU and layer norm, used for nothing else than to guess words.",
    formula: () => "t = LayerNorm(GELU(x W_T + b_T))",
    python: ["model/heads.py", "return self.norm(F.gelu(self.transform(hidden)))"],
    draw: (c) => [["", "x", c.at(c.trace.states.at(-1))], ["→", "· W + b", c.mlm.mapped],
      ["→", "GELU", c.mlm.bent], ["→", "normed: t", c.mlm.normed]].forEach((row) => c.strips([row])),
  },
  {
    part: "output", name: "word scores",
    title: (c) => `t is compared with all ${many(c.bert.vocab.length)} rows of the token table`,
    says: (c) => `The table that the input was read from serves again. “${c.guesses[0][0]}” fits `
      + `best: its row times t, plus its bias, is ${two(c.mlm.scores[c.guesses[0][2]])}.`,
    formula: () => "score(w) = t · token[w] + b[w]",
    python: ["model/heads.py", "return self.decoder(self.before_decoder(hidden))"],
    draw(c) {
      const bias = c.bert.tensors["mlm.decoder.bias"];
      c.strips([["", "t", c.mlm.normed]]);
      c.strips(c.guesses.map(([word, , id]) => ["", word, c.bert.row(c.bert.tensors[TOKENS], id),
        [two(c.mlm.scores[id] - bias[id]), two(bias[id]), two(c.mlm.scores[id])]]),
        ["the rows", "t · row", "+ b", "= score"]);
    },
  },
  {
    part: "output", name: "guess",
    title: (c) => `${c.asks}: “${c.guesses[0][0]}”, ${percent(c.guesses[0][1])}`,
    says: (c) => `Softmax once more, over ${many(c.bert.vocab.length)} words. Type another sentence `
      + "above, and everything is computed anew.",
    formula: () => "P(w) = exp(score(w)) / Σ exp(score)",
    python: ["analysis/fill.py", "best = logits.softmax(-1).topk(top)"],
    draw: (c) => c.bars(c.guesses.map(([word, share], i) => [word, share, percent(share), !i]),
      c.board, "large"),
  },
];

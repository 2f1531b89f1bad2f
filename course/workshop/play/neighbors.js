// What is in the tables below BERT: the rows near a word's, and how three rows become an input.
// data: word, text. The model has no layers, only embeddings.

const MOST = 32, TOP = 10, SHOWN = 24; // tokens of a text; rows in the list; dimensions in view
const MEASURES = ["cosine", "dot product", "distance"];

// The token table and the squared length of each row, as it is or with the mean row subtracted.
function rowsOf({ vocab, tensors, config: { hidden } }, centered) {
  let table = tensors["bert.embeddings.token.weight"];
  if (centered) {
    const mean = new Float64Array(hidden);
    table.forEach((value, i) => { mean[i % hidden] += value / vocab.length; });
    table = table.map((value, i) => value - mean[i % hidden]);
  }
  const squares = new Float64Array(vocab.length);
  table.forEach((value, i) => { squares[Math.floor(i / hidden)] += value * value; });
  return { table, squares };
}

// The rows nearest to row `id` as [piece, number], the nearest first.
function near({ vocab, config: { hidden } }, { table, squares }, id, measure) {
  const own = table.subarray(id * hidden, (id + 1) * hidden);
  const products = linear(own, table, new Float32Array(vocab.length));
  const numbers = vocab.map((_, i) => measure === "cosine" ? products[i] / Math.sqrt(squares[i] * squares[id])
    : measure === "distance" ? Math.sqrt(Math.max(squares[i] + squares[id] - 2 * products[i], 0))
    : products[i]);
  const sign = measure === "distance" ? 1 : -1;
  const order = [...vocab.keys()].filter((i) => i !== id);
  return order.sort((a, b) => sign * (numbers[a] - numbers[b])).slice(0, TOP)
    .map((i) => [vocab[i], numbers[i]]);
}

function toy(root, data, [bert]) {
  const kept = {}; // both tables, each when it is asked for
  const nearest = (id, by, middle) => near(bert, (kept[middle] ??= rowsOf(bert, middle)), id, by);
  let measure = "cosine", centered = true;
  const top = row(root);
  const word = field(top, "word", data.word, list, 16);
  choice(top, "measure", MEASURES, (i) => { measure = MEASURES[i]; list(); });
  toggle(top, "subtract the mean row", true, (on) => { centered = on; list(); });
  const rows = element(root, "div");
  const says = element(root, "p", { class: "says", "aria-live": "polite" });

  function list() {
    const typed = word.value.trim(), { tokens } = bert.encode(typed);
    const piece = bert.vocab.includes(typed) ? typed : tokens[1];
    const alone = piece === typed || (tokens.length === 3 && piece !== "[UNK]");
    rows.hidden = !typed || !alone;
    if (!typed) return (says.textContent = "Type a word.");
    if (!alone)
      return (says.textContent = `“${typed}” has no row of its own: it is ${tokens.slice(1, -1).join(" ")}.`);
    const found = nearest(bert.vocab.indexOf(piece), measure, centered);
    const longest = measure === "cosine" ? 1 : Math.max(...found.map(([, x]) => Math.abs(x)));
    shareBars(rows, found.map(([name, x]) => [name, x / longest, digits(x),
      measure === "distance" ? "orange" : "blue"]));
    says.textContent = `Of ${bert.vocab.length.toLocaleString("en")} rows, ` +
      `“${found[0][0]}” is nearest to “${piece}”.`;
  }

  // -- the sum
  let place = 1, at = 0, input, made;
  const { hidden, eps } = bert.config;
  const text = box(root, "text", data.text, read);
  const tokens = row(root, "tight");
  tokens.setAttribute("role", "group");
  tokens.setAttribute("aria-label", "token");
  const dimension = slider(row(root), "dimension", { min: 0, max: hidden - 1, value: 0 },
    (to) => { at = to; show(); });
  const cells = element(root, "table", { class: "cells" });
  const told = element(root, "p", { class: "says", "aria-live": "polite" });
  const STEPS = { "token": "token", "+ segment": "segment", "+ position": "position", "= sum": "sum",
    "layer norm": "out" };

  function read() {
    const wrong = refused(bert, [text.value], MOST);
    for (const part of [tokens, cells]) part.hidden = Boolean(wrong);
    if (wrong) return (told.textContent = wrong);
    input = bert.encode(text.value);
    const { states, ...rest } = bert.run(input.ids, input.segments);
    made = { ...rest, out: states[0] };
    place = Math.min(place, input.ids.length - 1);
    tokens.replaceChildren();
    input.tokens.forEach((token, i) => button(tokens, token, () => { place = i; show(); }));
    show();
  }

  // What stands in a row of each table at the chosen token, before and after the layer norm.
  const vector = (name) => bert.row(made[name], place);

  function show() {
    [...tokens.children].forEach((node, i) => node.setAttribute("aria-pressed", i === place));
    const first = Math.min(Math.max(at - SHOWN / 2, 0), hidden - SHOWN);
    cells.replaceChildren();
    for (const [name, key] of Object.entries(STEPS)) {
      const line = element(cells, "tr"), all = vector(key);
      element(line, "th", { scope: "row" }, name);
      element(line, "td", {}, digits(all[at], 3));
      const strip = element(element(line, "td"), "div", { class: "strip", "aria-hidden": true });
      const most = key === "out" ? 3 : 0.3;
      for (let i = first; i < first + SHOWN; i++) {
        const color = all[i] < 0 ? "orange" : "blue";
        const share = Math.round(100 * Math.sqrt(Math.min(Math.abs(all[i]) / most, 1)));
        const node = element(strip, "i", { title: `dimension ${i}: ${digits(all[i], 3)}`, style:
          `background: color-mix(in srgb, var(--${color}) ${share}%, transparent)` });
        if (i === at) node.className = "here";
        node.onclick = () => { at = i; dimension(i); show(); };
      }
    }
    const { mean, spread } = meanAndSpread(vector("sum"), eps);
    const [scale, shift] = ["weight", "bias"].map((name) => bert.tensors[`bert.embeddings.norm.${name}`][at]);
    const signed = (number) => digits(number, 3).replace("−", "− ").replace(/^(?=\d)/, "+ ");
    told.textContent = `${bert.cannotRead(text.value)}${input.tokens[place]}, dimension ${at}: ` +
      `${digits(vector("token")[at], 3)} ${signed(vector("segment")[at])} ${signed(vector("position")[at])}` +
      ` = ${digits(vector("sum")[at], 3)}. Its row has mean ${digits(mean, 3)} and standard deviation ` +
      `${digits(spread, 3)}: γ · (x − mean) / (standard deviation) + β = ` +
      `${digits(scale)} · ${digits((vector("sum")[at] - mean) / spread)} ` +
      `${signed(shift)} = ${digits(vector("out")[at], 3)}.`;
  }

  list();
  read();
  return { near: (piece, by, middle) => nearest(bert.vocab.indexOf(piece), by, middle),
    vectors: (words) => { const { ids, segments } = bert.encode(words); return bert.run(ids, segments); } };
}

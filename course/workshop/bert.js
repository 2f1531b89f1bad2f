// BERT in the page: WordPiece, the encoder and the heads of pre-training, as in bertedu.model.
//
// It uses no library and asks no network. `openWeights` finds the weights, `openBert` makes a model
// of them. A matrix is a Float32Array, row after row, a row a token; names are the package's.

// -- the weights: a script beside the page, because a page on a disk may not fetch anything else

const SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

// Return a promise of the model `name`, whose weights lie where `link` (an <a>) points to. `fresh`:
// the file may have been written again since it was read.
function openWeights(link, name, fresh = false) {
  const opened = (globalThis.bertOpened ??= {}); // one for all views of a page
  if (fresh) {
    delete opened[name];
    delete globalThis.bertWeights?.[name];
  }
  return (opened[name] ??= load(link, name, fresh).then(openBert).catch((error) => {
    delete opened[name]; // the next view may have better luck
    throw error;
  }));
}

async function load(link, name, fresh) {
  if (!globalThis.bertWeights?.[name]) {
    await resolved(link);
    const script = document.createElement("script");
    const address = new URL(link.href);
    if (fresh) address.searchParams.set("read", Date.now()); // past the browser's cache
    script.src = address;
    await new Promise((good, bad) => {
      script.onload = good;
      script.onerror = () => bad(new Error(`the page has no model (${name}.weights.js). Run the notebook in `
        + "JupyterLab: then it is there, and in pages and slides that are made afterwards"));
      document.head.append(script);
    });
    script.remove();
  }
  return globalThis.bertWeights[name];
}

// JupyterLab turns a link in an output into the file's address on its server, but not at once.
function resolved(link) {
  if (!document.getElementById("jupyter-config-data") || /^https?:/.test(link.getAttribute("href")))
    return null;
  return new Promise((done) => {
    new MutationObserver(done).observe(link, { attributes: true, attributeFilter: ["href"] });
    setTimeout(done, 5000);
  });
}

// Every 16-bit number that there is, as a usual one: sign, 5 bits of exponent, 10 of fraction.
function halfTable() {
  return Float32Array.from({ length: 65536 }, (_, bits) => {
    const exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const size = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
    return bits & 32768 ? -size : size;
  });
}

// Decode base64 of 16-bit numbers into tensors; `shapes` are [name, size, size…], in this order.
function readTensors(base64, shapes) {
  const bytes = atob(base64), table = halfTable(), tensors = {};
  let place = 0;
  for (const [name, ...sizes] of shapes) {
    const tensor = new Float32Array(sizes.reduce((a, b) => a * b));
    for (let i = 0; i < tensor.length; i++, place += 2)
      tensor[i] = table[bytes.charCodeAt(place) | (bytes.charCodeAt(place + 1) << 8)];
    tensors[name] = tensor;
  }
  return tensors;
}

// -- WordPiece, as in bertedu/text/tokenization.py

const CHINESE = [
  [0x3400, 0x4dbf], [0x4e00, 0x9fff], [0xf900, 0xfaff], [0x20000, 0x2a6df],
  [0x2a700, 0x2b81f], [0x2b920, 0x2ceaf], [0x2f800, 0x2fa1f],
];
const BLANK = /_{2,}|\[MASK\]/g;

// Clean, space out Chinese, strip accents, lower-case; then one word after the other.
function words(text) {
  let plain = "";
  for (const c of text.toWellFormed()) {
    if (c === "\ufffd" || (/[\p{Cc}\p{Cf}\p{Co}]/u.test(c) && !"\t\n\r".includes(c))) continue;
    const code = c.codePointAt(0);
    plain += CHINESE.some(([first, last]) => first <= code && code <= last) ? ` ${c} ` : c;
  }
  plain = plain.normalize("NFD").replace(/\p{Mn}/gu, "");
  // one by one: JavaScript writes the last Σ of a word in another way than the others
  plain = Array.from(plain, (c) => c.toLowerCase()).join("");
  return plain.match(/[!-/:-@[-`{-~\p{P}]|[^\s!-/:-@[-`{-~\p{P}]+/gu) ?? [];
}

// Cut one word greedily: the longest piece that fits, then the longest of the rest.
function pieces(word, ids) {
  const letters = Array.from(word), found = [];
  if (letters.length > 100) return ["[UNK]"];
  for (let start = 0, end; start < letters.length; start = end) {
    const named = (stop) => (start ? "##" : "") + letters.slice(start, stop).join("");
    end = letters.length;
    while (end > start && !ids.has(named(end))) end--;
    if (end === start) return ["[UNK]"]; // half a word known is a word unknown
    found.push(named(end));
  }
  return found;
}

// -- arithmetic

// x (rows, in) times W (out, in) transposed, plus b (out): (rows, out). Four sums at a time: each
// addition waits for the one before it, so one sum alone would be three times as slow.
function linear(x, W, b) {
  const outs = b.length, ins = W.length / outs, rows = x.length / ins;
  const y = new Float32Array(rows * outs);
  for (let row = 0; row < rows; row++)
    for (let out = 0; out < outs; out++) {
      let a = row * ins, w = out * ins, one = b[out], two = 0, three = 0, four = 0;
      const end = a + ins;
      for (; a + 3 < end; a += 4, w += 4) {
        one += x[a] * W[w];
        two += x[a + 1] * W[w + 1];
        three += x[a + 2] * W[w + 2];
        four += x[a + 3] * W[w + 3];
      }
      for (; a < end; a++, w++) one += x[a] * W[w];
      y[row * outs + out] = one + two + three + four;
    }
  return y;
}

const add = (x, y) => x.map((value, i) => value + y[i]);

function layerNorm(x, scale, shift, eps) {
  const size = scale.length, y = new Float32Array(x.length);
  for (let start = 0; start < x.length; start += size) {
    const { mean, spread } = meanAndSpread(x.subarray(start, start + size), eps);
    for (let i = 0; i < size; i++)
      y[start + i] = ((x[start + i] - mean) / spread) * scale[i] + shift[i];
  }
  return y;
}

function meanAndSpread(row, eps) {
  const mean = row.reduce((a, b) => a + b) / row.length;
  const square = row.reduce((a, b) => a + (b - mean) ** 2, 0) / row.length;
  return { mean, spread: Math.sqrt(square + eps) };
}

// Abramowitz and Stegun (1964), formula 7.1.26: off by 1.5e-7 at most.
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t
    + 0.254829592) * t;
  return Math.sign(x) * (1 - sum * Math.exp(-x * x));
}

const gelu = (x) => x.map((value) => 0.5 * value * (1 + erf(value * Math.SQRT1_2)));

function softmax(scores) {
  const most = scores.reduce((a, b) => Math.max(a, b));
  const exps = scores.map((score) => Math.exp(score - most));
  const sum = exps.reduce((a, b) => a + b);
  return exps.map((value) => value / sum);
}

// -- the model

// `file` has config, vocab, shapes and base64, as course/workshop/machine.py writes them.
function openBert({ config, vocab, shapes, base64 }) {
  const tensors = readTensors(base64, shapes);
  const { heads, layers, eps, direction } = config;
  const ids = new Map(vocab.map((token, id) => [token, id]));
  const special = SPECIAL.map((token) => ids.get(token));
  const hidden = tensors["bert.embeddings.norm.weight"].length, d = hidden / heads;
  const positions = tensors["bert.embeddings.position.weight"].length / hidden;
  const row = (x, i, size = hidden) => x.subarray(i * size, (i + 1) * size);
  const map = (x, name) => linear(x, tensors[`${name}.weight`], tensors[`${name}.bias`]);
  const norm = (x, name) => layerNorm(x, tensors[`${name}.weight`], tensors[`${name}.bias`], eps);
  // where a query may look: bertedu/model/attention.py
  const maySee = (query, key) =>
    direction === "left-to-right" ? key <= query
    : direction === "right-to-left" ? key >= query
    : true;

  // Return { tokens, ids, segments } of `[CLS] text [SEP]`, or `[CLS] text [SEP] pair [SEP]`.
  function encode(text, pair = null) {
    const cut = (part) => part.split(/(\[PAD\]|\[UNK\]|\[CLS\]|\[SEP\]|\[MASK\])/).flatMap((some) =>
      SPECIAL.includes(some) ? [some] : words(some).flatMap((word) => pieces(word, ids)));
    const first = ["[CLS]", ...cut(text), "[SEP]"];
    const second = pair === null ? [] : [...cut(pair), "[SEP]"];
    const tokens = [...first, ...second];
    return {
      tokens,
      ids: tokens.map((token) => ids.get(token)),
      segments: tokens.map((_, i) => (i < first.length ? 0 : 1)),
    };
  }

  // What to say of words that are only [UNK] to the model, or "".
  function cannotRead(text) {
    const found = words(text.replace(BLANK, " ")).filter((word) => pieces(word, ids)[0] === "[UNK]");
    const named = [...new Set(found)].map((word) => Array.from(word.normalize("NFC")))
      .map((letters) => `“${letters.slice(0, 20).join("")}${letters.length > 20 ? "…" : ""}”`);
    return found.length ? `The model cannot read ${named.join(", ")}: it sees [UNK], for unknown. ` : "";
  }

  // Encode a text with blanks (___). Only BERT knows [MASK]; one-way models read [UNK] there.
  // `place` is where the first blank is guessed from, or null: a one-way model reads no blank, but
  // the token before it (right to left: behind it), and scores the *next* word there.
  function encodeBlanks(text) {
    const input = encode(text.replace(BLANK, "[MASK]"));
    const blank = input.tokens.indexOf("[MASK]");
    const shift = { "left-to-right": -1, "right-to-left": 1 }[direction] ?? 0;
    if (shift) {
      input.tokens = input.tokens.map((token) => (token === "[MASK]" ? "[UNK]" : token));
      input.ids = input.tokens.map((token) => ids.get(token));
    }
    return { ...input, blank, place: blank < 0 ? null : blank + shift };
  }

  // Every head's scores before ÷√d, its shares, and its mixture of the values.
  function attend(query, key, value, n) {
    const scores = new Float32Array(heads * n * n).fill(-Infinity);
    const weights = new Float32Array(heads * n * n), mixed = new Float32Array(n * hidden);
    for (let head = 0; head < heads; head++)
      for (let q = 0; q < n; q++) {
        const from = (head * n + q) * n;
        for (let k = 0; k < n; k++) {
          if (!maySee(q, k)) continue;
          let sum = 0;
          for (let i = head * d; i < (head + 1) * d; i++)
            sum += query[q * hidden + i] * key[k * hidden + i];
          scores[from + k] = sum;
        }
        weights.set(softmax(scores.slice(from, from + n).map((s) => s / Math.sqrt(d))), from);
        for (let k = 0; k < n; k++)
          for (let i = head * d; i < (head + 1) * d; i++)
            mixed[q * hidden + i] += weights[from + k] * value[k * hidden + i];
      }
    return { scores, weights, mixed };
  }

  function layer(x, number, n) {
    const name = `bert.encoder.layers.${number}`;
    const [query, key, value] = ["query", "key", "value"].map((one) =>
      map(x, `${name}.attention.${one}`));
    const { scores, weights, mixed } = attend(query, key, value, n);
    const joined = map(mixed, `${name}.attention.output`);
    const sum = add(x, joined);
    const middle = norm(sum, `${name}.attention_norm`);
    const inner = map(middle, `${name}.feed_forward.intermediate`);
    const bent = gelu(inner);
    const fed = map(bent, `${name}.feed_forward.output`);
    const last = add(middle, fed);
    const out = norm(last, `${name}.feed_forward_norm`);
    return { x, query, key, value, scores, weights, mixed, joined, sum, middle, inner, bent, fed,
      last, out };
  }

  // Run it, and keep all that is computed on the way: (S, H), where nothing else is said.
  function run(ids, segments = ids.map(() => 0)) {
    if (ids.length > positions) throw new Error(`${ids.length} tokens; ${positions} at most`);
    const n = ids.length;
    const rows = (table, places) => {
      const x = new Float32Array(n * hidden), from = tensors[`bert.embeddings.${table}.weight`];
      places.forEach((place, i) => x.set(row(from, place), i * hidden));
      return x;
    };
    const token = rows("token", ids), segment = rows("segment", segments);
    const position = rows("position", ids.map((_, i) => i));
    const sum = add(add(token, segment), position);
    const states = [norm(sum, "bert.embeddings.norm")]; // L + 1 of them
    const made = []; // one for each layer
    for (let number = 0; number < layers; number++) {
      made.push(layer(states[number], number, n));
      states.push(made[number].out);
    }
    return { token, segment, position, sum, states, layers: made };
  }

  // The head that guesses words, on one state (H): scores are (V).
  function wordScores(state) {
    const mapped = map(state, "mlm.transform"), bent = gelu(mapped);
    const normed = norm(bent, "mlm.norm");
    const table = tensors["bert.embeddings.token.weight"]; // one storage, used at both ends
    return { mapped, bent, normed, scores: linear(normed, table, tensors["mlm.decoder.bias"]) };
  }

  // The likeliest words, best first, as [word, probability, id]; "[PAD]" is no answer.
  function guesses(scores, top = 5) {
    const allowed = scores.slice(0, vocab.length);
    for (const id of special) allowed[id] = -Infinity;
    const shares = softmax(allowed);
    return [...shares.keys()]
      .sort((a, b) => shares[b] - shares[a])
      .slice(0, top)
      .map((id) => [vocab[id], shares[id], id]);
  }

  // C of the paper: (H), from the last states of a whole input.
  function pooled(state) {
    const reader = direction === "left-to-right" ? state.length / hidden - 1 : 0;
    return map(row(state, reader), "bert.pooler.dense").map(Math.tanh);
  }

  // P(IsNext) of the paper, from the states of a whole pair.
  const isNext = (state) => softmax(map(pooled(state), "nsp.classifier"))[0];

  return { config: { ...config, hidden, d, positions }, vocab, tensors, row, map, maySee, encode,
    cannotRead, encodeBlanks, run, wordScores, guesses, pooled, isNext };
}

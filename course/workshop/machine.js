// One sentence through a BERT, step by step, with its real numbers. bert.js and machine_steps.js
// come before it; machine.css says how it looks.
//
// Layers and heads are counted from 0 here and shown from 1; tokens are counted from 0 everywhere.

function make(parent, name, attributes = {}, text = "") {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== "") node.textContent = text; // never as HTML: a token may be "<"
  parent.append(node);
  return node;
}

const LEGEND = "Blue: above 0. Orange: below. Stronger: farther from 0.";
const HELP = "← → walk · ↑ ↓ another token · l next layer · h next head · Shift ← → one number";

// -- drawing

// Fill a canvas as large as it is shown: `paint` gets its pen, width and height in CSS pixels.
function onCanvas(canvas, paint) {
  const sharp = window.devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
  const pen = canvas.getContext("2d");
  pen.scale(sharp, sharp);
  paint(pen, width, height);
}

// Frame one number of a strip, and write it beside the frame.
function mark(pen, from, to, width, height, value, colors) {
  const left = from > width / 2, text = two(value);
  Object.assign(pen, { globalAlpha: 1, strokeStyle: colors.ink, lineWidth: 2, textBaseline: "middle",
    font: "bold 15px ui-monospace, monospace", textAlign: left ? "right" : "left" });
  const wide = pen.measureText(text).width + 8;
  pen.fillStyle = colors.paper;
  pen.fillRect(left ? from - wide - 3 : to + 3, 0, wide, height);
  pen.fillStyle = colors.ink;
  pen.fillText(text, left ? from - 7 : to + 7, height / 2);
  pen.strokeRect(from - 1, 1, Math.max(to - from, 2) + 2, height - 2);
}

// What a step draws on the board; `told` hears that a number of a strip is pointed at.
function drawing(board, told) {
  const colors = {};
  let painters = [], pointed = null;

  // Rows of [sign, label, vector, numbers at the right], all colored on one scale. `names` stand
  // above: what the rows are, then each column of numbers.
  function strips(rows, names = []) {
    const size = rows.length < 5 ? "tall" : rows.length > 16 ? "dense" : "";
    const grid = make(board, "div", { class: `rows strips ${size}` });
    const largest = (vector) => vector.reduce((a, b) => Math.max(a, Math.abs(b) || 0), 0);
    const top = Math.max(...rows.map(([, , vector]) => largest(vector))) || 1;
    if (names.length) {
      make(grid, "b", { class: "above" }, names[0]);
      const cell = make(grid, "span", { class: "numbers mono" });
      for (const name of names.slice(1)) make(cell, "b", {}, name);
    }
    for (const [sign, label, vector, numbers] of rows) {
      const kind = sign === "=" ? "mono result" : "mono";
      make(grid, "span", { class: kind }, sign);
      make(grid, "span", { class: `${kind} label` }, label);
      const canvas = make(grid, "canvas", { role: "img", "aria-label":
        `${label}: ${vector.length} numbers, ${(numbers ?? few(vector)).join(", ")} and so on` });
      const cell = make(grid, "span", { class: `numbers ${kind}` });
      for (const number of numbers ?? [...few(vector), "…"])
        make(cell, "span", number === "…" ? { class: "dots" } : {}, number);
      canvas.onpointermove = ({ offsetX }) => {
        const i = Math.floor((offsetX / canvas.clientWidth) * vector.length);
        point(Math.min(Math.max(i, 0), vector.length - 1), vector.length);
      };
      painters.push(() => {
        const at = pointed?.size === vector.length ? pointed.i : null;
        onCanvas(canvas, (pen, width, height) => {
          const x = (i) => Math.round((i * width) / vector.length);
          vector.forEach((value, i) => {
            pen.globalAlpha = Math.sqrt(Math.abs(value) / top) || 0; // the root: small ones show
            pen.fillStyle = value < 0 ? colors.minus : colors.plus;
            pen.fillRect(x(i), 0, Math.max(x(i + 1) - x(i), 1), height);
          });
          if (at !== null && !isNaN(vector[at]))
            mark(pen, x(at), x(at + 1), width, height, vector[at], colors);
        });
      });
    }
  }

  // Rows of [label, share, what is written behind the bar, is it the chosen one].
  function bars(rows, parent, size = rows.length > 16 ? "dense" : "") {
    const grid = make(parent, "div", { class: `rows bars ${size}` });
    const most = Math.max(...rows.map(([, share]) => share));
    for (const [label, share, says, own] of rows) {
      make(grid, "span", { class: own ? "mono own" : "mono" }, label);
      make(make(grid, "div", { class: "bar", "aria-hidden": "true" }), "i",
        { style: `width: ${(100 * share) / most}%` });
      make(grid, "span", { class: "mono numbers" }, says);
    }
  }

  // All rows of one head's attention weights, the chosen token's framed; a click chooses another.
  function map(parent, weights, tokens, chosen, choose) {
    const n = tokens.length, room = 80;
    const most = parseFloat(getComputedStyle(board).getPropertyValue("--cell")) || 28; // a slide: less
    const cell = Math.max(12, Math.min(most, Math.max(240, 0.38 * board.clientWidth) / n));
    const canvas = make(parent, "canvas", { class: "map", role: "img", "aria-label":
      `attention weights of all ${n} tokens: a row a query, a column a key; `
      + "the bars say those of this row" });
    canvas.style.width = canvas.style.height = `${room + n * cell + 2}px`;
    canvas.onclick = ({ offsetY }) => {
      const token = Math.floor((offsetY - room) / cell);
      if (token >= 0 && token < n) choose(token);
    };
    painters.push(() => onCanvas(canvas, (pen) => {
      Object.assign(pen, { textAlign: "right", textBaseline: "middle", fillStyle: colors.ink });
      pen.font = `${Math.min(14, cell - 1)}px ui-monospace, monospace`;
      tokens.forEach((token, i) => {
        pen.fillText(token, room - 5, room + (i + 0.5) * cell, room - 5);
        pen.save();
        pen.translate(room + (i + 0.5) * cell, room - 5);
        pen.rotate(Math.PI / 2);
        pen.fillText(token, 0, 0, room - 5);
        pen.restore();
      });
      pen.fillStyle = colors.plus;
      weights.forEach((share, i) => {
        pen.globalAlpha = Math.sqrt(share);
        pen.fillRect(room + (i % n) * cell, room + Math.floor(i / n) * cell, cell - 1, cell - 1);
      });
      Object.assign(pen, { globalAlpha: 1, strokeStyle: colors.minus, lineWidth: 3 });
      pen.strokeRect(room - 1, room + chosen * cell - 1, n * cell + 1, cell + 1);
    }));
  }

  function repaint() {
    for (const name of ["ink", "paper", "plus", "minus"]) {
      const probe = make(board, "i", { style: `color: var(--${name})` });
      colors[name] = getComputedStyle(probe).color; // as the theme has it now
      probe.remove();
    }
    for (const paint of painters) paint();
  }

  function point(i, size) {
    pointed = { i, size };
    told(`Framed: number ${i + 1} of ${size}.`);
    repaint();
  }

  function clear() {
    painters = [];
    board.replaceChildren();
  }

  return { strips, bars, map, repaint, clear, point, pointed: () => pointed };
}

// Put the machine into `root`, in place of the picture, as soon as its weights are there.
async function startMachine(root, data) {
  if (root.machine) return;
  root.machine = "on its way";
  try {
    const bert = await openWeights(root.querySelector("a"), data.name);
    root.machine = drawMachine(root, bert, data);
  } catch (error) {
    root.machine = null; // the picture stays
    make(root, "p", { role: "status" }, `No machine here: ${error.message}.`);
  }
}

function drawMachine(root, bert, data) {
  const { layers, heads, hidden: H, d } = bert.config;
  const state = { step: 0, layer: data.layer, head: data.head, token: 0 };
  let input, trace, mlm, guesses, time;
  root.replaceChildren();
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", `BERT step by step, ${data.name}. Keys: ${HELP}`);
  const frame = make(root, "div", { class: "frame" });
  const top = make(frame, "div", { class: "top" });
  const field = make(make(top, "label", {}, "Sentence"), "input",
    { type: "text", value: data.text, spellcheck: "false", "aria-description": "___ is a blank" });
  const alert = make(top, "div", { class: "trouble", role: "status" });
  const tokens = make(top, "div", { class: "tokens", role: "group",
    "aria-label": "token: up and down arrow keys choose" });
  const guess = make(top, "div", { class: "guess" });

  // -- the rail: the whole machine, a button a step
  const rail = make(frame, "nav", { class: "rail",
    "aria-label": "steps: left and right arrow keys walk" });
  const which = (parent, name, count) => {
    const group = make(parent, "div", { class: "which", role: "group", "aria-label": name }, name);
    return Array.from({ length: count }, (_, i) => {
      const label = `${name} ${i + 1}`;
      const button = make(group, "button", { type: "button", "aria-label": label }, i + 1);
      button.onclick = () => change({ [name]: i });
      return button;
    });
  };
  const boxes = {};
  make(rail, "b", {}, "input");
  boxes.input = make(rail, "div", { class: "box" });
  boxes.layer = make(rail, "div", { class: "box" });
  const layerButtons = which(boxes.layer, "layer", layers);
  boxes.head = make(boxes.layer, "div", { class: "box" });
  const headButtons = which(boxes.head, "head", heads);
  make(rail, "b", {}, "output");
  boxes.output = make(rail, "div", { class: "box" });
  const stepButtons = STEPS.map(({ part, name }, i) => {
    const button = make(boxes[part], "button", { type: "button" }, name);
    button.onclick = () => change({ step: i });
    return button;
  });
  const right = make(frame, "div");
  const walk = make(right, "div", { class: "walk" });
  const back = make(walk, "button", { type: "button" }, "◀ back");
  const next = make(walk, "button", { type: "button" }, "next ▶");
  back.onclick = () => go(-1);
  next.onclick = () => go(1);
  const where = make(walk, "span", { class: "soft" });
  const stage = make(right, "div", // a section would be a slide of its own to reveal.js
    { class: "stage", role: "region", tabindex: "0", "aria-label": "the step" });
  const told = make(stage, "div", { "aria-live": "polite" });
  const board = make(stage, "div");
  const pointing = make(right, "p", { class: "own framed" });
  const { strips, bars, map, repaint, clear, point, pointed } =
    drawing(board, (text) => { pointing.textContent = text; });
  make(right, "p", { class: "soft" }, `${LEGEND} ${HELP}`);

  // -- the way through: input, every layer, output
  const first = STEPS.findIndex(({ part }) => part === "head");
  const last = STEPS.findIndex(({ part }) => part === "output") - 1;
  const inLayer = last - first + 1, count = STEPS.length + (layers - 1) * inLayer;
  const place = () => state.step < first ? state.step
    : state.step > last ? state.step + (layers - 1) * inLayer
    : state.step + state.layer * inLayer;
  function go(by) {
    const to = Math.min(Math.max(place() + by, 0), count - 1);
    if (to < first) return change({ step: to });
    if (to >= first + layers * inLayer) return change({ step: to - (layers - 1) * inLayer });
    change({ step: first + (to - first) % inLayer, layer: Math.floor((to - first) / inLayer) });
  }

  // -- compute
  function compute() {
    const read = bert.encodeBlanks(field.value);
    const most = Math.min(data.most, bert.config.positions);
    const long = read.tokens.length > most;
    alert.textContent = bert.cannotRead(field.value) + (long
      ? `${read.tokens.length} tokens: the walk shows ${most} at most. Below is the text before it.` : "");
    if (long) return;
    const start = performance.now();
    input = read;
    trace = bert.run(input.ids, input.segments);
    time = performance.now() - start;
    state.token = input.place ?? Math.min(state.token || 1, input.ids.length - 1);
    tokens.replaceChildren();
    input.tokens.forEach((token, i) => {
      make(tokens, "button", { type: "button" }, token).onclick = () => change({ token: i });
    });
    change({});
  }

  // -- what the steps draw with
  function context() {
    const n = input.ids.length, { layer, head, token } = state, made = trace.layers[layer];
    const cell = (head * n + token) * n;
    const c = { ...input, bert, trace, mlm, guesses, layer, head, token, n, H, d, made, board };
    const shares = made.weights.subarray(cell, cell + n);
    return Object.assign(c, {
      word: input.tokens[token],
      name: `bert.encoder.layers.${layer}`,
      wide: made.inner.length / n,
      asks: asks(),
      best: shares.indexOf(Math.max(...shares)),
      share: (k) => shares[k],
      score: (k) => made.scores[cell + k],
      seen: (k) => bert.maySee(token, k),
      at: (x, size = H) => bert.row(x, token, size),
      part: (x, at = token, one = head) => x.subarray(at * H + one * d, at * H + (one + 1) * d),
      padded: (one) => { // a head's numbers where they stand among all H, and the first of them
        const x = new Float32Array(H).fill(NaN), mixed = c.part(made.mixed, token, one);
        x.set(mixed, one * d);
        return [x, [...few(mixed), "…"]];
      },
      normed: (name, x, norm, y) => {
        const { mean, spread } = meanAndSpread(x, bert.config.eps);
        strips([["", `(${name} − μ) / σ`, x.map((value) => (value - mean) / spread)]]);
        strips([["·", "γ", bert.tensors[`${norm}.weight`]]]);
        strips([["+", "β", bert.tensors[`${norm}.bias`]]]);
        strips([["=", "normed", y]]);
      },
      strips,
      bars,
      map: (parent) => map(parent, made.weights.subarray(head * n * n, (head + 1) * n * n),
        input.tokens, token, (token) => change({ token })),
    });
  }

  const asks = () => {
    const word = `“${input.tokens[state.token]}”`;
    const { direction } = bert.config;
    return direction === "left-to-right" ? `The word after ${word}`
      : direction === "right-to-left" ? `The word before ${word}`
      : `What stands at ${word}`;
  };

  // -- show the state
  const choose = (buttons, chosen, name = "aria-pressed", value = "true") =>
    buttons.forEach((button, i) => {
      button.tabIndex = i === chosen ? 0 : -1; // Tab stops once in a group
      if (i === chosen) button.setAttribute(name, value);
      else button.removeAttribute(name);
    });

  function change(patch) {
    Object.assign(state, patch);
    mlm = bert.wordScores(bert.row(trace.states.at(-1), state.token));
    guesses = bert.guesses(mlm.scores, 8);
    choose([...tokens.children], state.token);
    choose(stepButtons, state.step, "aria-current", "step");
    choose(layerButtons, state.layer);
    choose(headButtons, state.head);
    guess.replaceChildren();
    make(guess, "span", {}, `${asks()}? `);
    guesses.slice(0, 3).forEach(([word, share], i) =>
      make(guess, i ? "span" : "b", {}, `${i ? ", " : ""}${word} ${percent(share)}`));
    make(guess, "small", {}, `   computed in this page, ${Math.max(1, Math.round(time))} ms`);
    show();
    back.disabled = place() === 0;
    next.disabled = place() === count - 1;
  }

  function show() {
    const step = STEPS[state.step], c = context();
    clear();
    told.replaceChildren();
    const part = { layer: `layer ${state.layer + 1}, `, head:
      `layer ${state.layer + 1}, head ${state.head + 1}, ` }[step.part] ?? "";
    where.textContent = `step ${place() + 1} of ${count}: ${part}${step.name}`;
    make(told, "h3", {}, step.title(c));
    make(told, "p", {}, step.says(c).replaceAll(" %", "\u00a0%")); // no line ends there
    const list = make(board, "dl"), [file, ...lines] = step.python;
    make(list, "dt", {}, "formula");
    const formula = make(list, "dd", { class: "mono" });
    step.formula(c).split(/_(\w)/).forEach((text, i) =>
      make(formula, i % 2 ? "sub" : "span", {}, text));
    make(list, "dt", {}, "Python");
    const code = make(list, "dd", {});
    make(code, "div", { class: "mono" }, lines.join("\n"));
    make(code, "div", { class: "soft" }, `bertedu/${file}`);
    step.draw(c);
    repaint();
  }

  // -- keys stay in here: JupyterLab would cut or leave the cell
  const KEYS = {
    ArrowLeft: () => go(-1), ArrowRight: () => go(1),
    ArrowUp: () => pick(-1), ArrowDown: () => pick(1),
    l: () => change({ layer: (state.layer + 1) % layers }),
    h: () => change({ head: (state.head + 1) % heads }),
  };
  const pick = (by) =>
    change({ token: Math.min(Math.max(state.token + by, 0), input.ids.length - 1) });
  root.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && event.shiftKey) return; // runs the cell
    event.stopPropagation();
    if (event.target === field) {
      if (event.key === "Enter" || event.key === "Escape") stage.focus();
      return;
    }
    if (event.shiftKey && event.key in { ArrowLeft: 1, ArrowRight: 1 }) {
      const { i, size } = pointed() ?? { i: -1, size: H };
      const to = i + (event.key === "ArrowRight" ? 1 : -1);
      point(Math.min(Math.max(to, 0), size - 1), size);
    } else if (KEYS[event.key]) {
      const group = document.activeElement.parentElement;
      KEYS[event.key]();
      // a chosen button has the focus still, or it moves to the one that is chosen now
      if (root.contains(group)) group.querySelector("[tabindex='0']")?.focus();
    } else return;
    event.preventDefault();
  };
  field.oninput = compute;
  new ResizeObserver(repaint).observe(stage);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  new MutationObserver(repaint).observe(document.documentElement, // JupyterLab's theme, the site's
    { attributeFilter: ["data-jp-theme-light", "data-theme"], subtree: true });
  compute();
  return { state, go, change, bert };
}

// What all toys of `play/` share: one look, sliders, buttons, steps, chance from a seed.
//
// A page gets this file, then one file of `play/`, which defines `toy(root, data, models)`; between
// the two bert.js, if it computes with models. No library, no network. Colors are mixed with the page's own text color, so that both themes work at any time.

const STYLE = `
& { --blue: #0072B2; --orange: #D55E00; --green: #009E73; --pink: #CC79A7;
  --line: color-mix(in srgb, currentColor 40%, transparent);
  --faint: color-mix(in srgb, currentColor 9%, transparent);
  color: var(--jp-ui-font-color1, inherit); font: 18px/1.45 system-ui, sans-serif; max-width: 1080px;
  border: 2px solid var(--line); border-radius: 8px; padding: 14px 20px; margin: 4px 0;
  overflow-wrap: anywhere; }
& p, & table, & figure { margin: 8px 0; }
& .row { display: flex; flex-wrap: wrap; gap: 8px 20px; align-items: center; margin: 8px 0; }
& .beside { display: flex; flex-wrap: wrap; gap: 8px 24px; align-items: flex-start; }
& .tight { gap: 6px; }
& .beside > .share { flex: 1 1 370px; max-width: 500px; min-width: 0; }
& .share svg { width: 100%; }
& button, & input, & textarea, & select { font: inherit; color: inherit; background: none; border: 2px solid var(--line);
  border-radius: 6px; padding: 3px 12px; margin: 0; }
& button { cursor: pointer; background: var(--faint); }
& button:hover { border-color: currentColor; }
& button[aria-disabled=true] { opacity: .45; cursor: default; }
& button[aria-pressed=true] { border-color: var(--blue); box-shadow: 0 0 0 2px var(--blue);
  background: color-mix(in srgb, var(--blue) 25%, transparent); }
& input[aria-invalid=true] { border-color: var(--orange); border-style: dashed; }
& :focus-visible { outline: 3px solid var(--orange); outline-offset: 2px; }
& label { display: inline-flex; flex-wrap: wrap; gap: 2px 10px; align-items: center; }
& [hidden] { display: none !important; }
& .wide, & textarea { flex: 1 1 100%; box-sizing: border-box; width: 100%; resize: vertical; }
& select option { color: CanvasText; background: Canvas; }
& .bars { display: grid; grid-template-columns: auto minmax(60px, 1fr) auto; gap: 6px 14px;
  align-items: center; margin: 8px 0; max-width: 900px; }
& .bars > span { overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
& .bars > div { background: var(--faint); height: 24px; border-radius: 4px; }
& .bars i { display: block; height: 100%; background: var(--blue); border-radius: 4px; }
& .strip { display: flex; }
& .cell.tag { display: inline-flex; flex-direction: column; align-items: center; line-height: 1.25; }
& .spans { gap: 4px 2px; }
& .spans .cell { padding: 0 4px; }
& .cell.marked { background: color-mix(in srgb, var(--green) 35%, transparent); font-weight: 700; }
& .cells { width: 100%; }
& .cells td:last-child { width: 100%; padding-right: 0; }
& .strip i { flex: 1 1 0; max-width: 24px; height: 30px; box-sizing: border-box; cursor: pointer; }
& .strip .here { border: 3px solid currentColor; }
& .slider { flex-direction: column; align-items: stretch; width: 190px; }
& .slider input { padding: 0; border: 0; accent-color: var(--blue); width: 100%; height: 26px; }
& .cell { display: inline-block; font: 20px/1.5 ui-monospace, monospace; white-space: pre;
  padding: 1px 8px; border-radius: 4px; border-bottom: 4px solid var(--line); background: var(--faint);
  max-width: 100%; box-sizing: border-box; overflow: clip; text-overflow: ellipsis; }
& .bare { background: none; border-color: transparent; }
& .blue { border-color: var(--blue); background: color-mix(in srgb, var(--blue) 28%, transparent); }
& .green { border-color: var(--green); background: color-mix(in srgb, var(--green) 30%, transparent); }
& .orange { border-color: var(--orange);
  background: color-mix(in srgb, var(--orange) 30%, transparent); }
& .says { min-height: 2.9em; font-weight: 600; }
& table { border-collapse: collapse; font-size: 18px; border: 0; table-layout: auto; }
& th, & td { text-align: right; padding: 3px 12px; border: 0; background: none; white-space: nowrap;
  font-variant-numeric: tabular-nums; max-width: none; }
& th { font-weight: 600; border-bottom: 2px solid var(--line); }
& th:first-child, & td:first-child { text-align: left; }
& svg { display: block; max-width: 100%; height: auto; overflow: visible; touch-action: none; }
& svg text { font: 17px system-ui, sans-serif; fill: currentColor; }
& svg .title { font-weight: 600; }
& svg .axis { stroke: var(--line); stroke-width: 1.5; fill: none; }
& svg .handle { cursor: grab; }
& tr.best td { background: color-mix(in srgb, var(--orange) 22%, transparent); font-weight: 700; }
& .large .cell { font-size: 30px; padding: 1px 12px; }
& small { font-size: 15px; opacity: .85; }
`;

function element(parent, name, attributes = {}, text = "", space = "http://www.w3.org/1999/xhtml") {
  const node = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.textContent = text; // never as HTML: a word may be "<"
  parent.append(node);
  return node;
}
const draw = (parent, name, attributes, text) =>
  element(parent, name, attributes, text, "http://www.w3.org/2000/svg");
const row = (parent, more = "") => element(parent, "div", { class: `row ${more}` });
const cell = (parent, text, more = "") =>
  element(parent, "span", { class: `cell ${more}` }, text);
// "−" and not "-" before a number, and no minus before a zero
const digits = (number, places = 2) =>
  number.toFixed(places).replace(/^-(?=[0.]*$)/, "").replace("-", "−");

const short = (text, most = 40) => (text.length > most ? `${text.slice(0, most)}…` : text);

// Open the models that the links of the still part lead to, if any, and play with them.
async function start(root, data) {
  root.toy = {}; // on its way
  try {
    const models = [...root.querySelectorAll("a")].map((link, i) =>
      openWeights(link, data.weights[i].replace(/\.weights\.js$/, ""), data.fresh));
    play(root, data, models.length ? await Promise.all(models) : []);
  } catch (error) {
    if (data.recorded) return play(root, data, []); // what was recorded needs no weights
    root.toy = null; // the still part stays, without its last line
    [...root.querySelectorAll("p")].at(-1).hidden = true;
    element(root, "p", { role: "status" }, `Nothing to play with here: ${error.message}.`);
  }
}

// Put `data` to play with into `root`, in place of the still part.
function play(root, data, models) {
  root.replaceChildren();
  root.classList.add("alive");
  element(root, "style", {}, STYLE.replaceAll("&", ".bertedu-play.alive"));
  // a plain key pressed in here belongs to the toy: JupyterLab would cut or leave the cell
  root.onkeydown = (event) => {
    const runs = event.key === "Enter" && event.shiftKey;
    if (!event.ctrlKey && !event.metaKey && !event.altKey && !runs) event.stopPropagation();
  };
  root.toy = toy(root, data, models) ?? {};
}

function button(parent, text, act, attributes = {}) {
  const node = element(parent, "button", { type: "button", ...attributes }, text);
  node.onclick = act;
  return node;
}

// A button that is in or out; `changed` is called with true or false.
function toggle(parent, text, on, changed) {
  const node = button(parent, text, () => {
    node.setAttribute("aria-pressed", node.getAttribute("aria-pressed") !== "true");
    changed(node.getAttribute("aria-pressed") === "true");
  }, { "aria-pressed": on });
  return node;
}

function field(parent, name, value, changed, size = 24) {
  const label = element(parent, "label", {}, name);
  const input = element(label, "input", { type: "text", size, spellcheck: false });
  input.value = value;
  input.oninput = () => changed(input.value);
  return input;
}

// A text box as wide as there is room, `rows` lines high.
function box(parent, name, value, changed, rows = 1) {
  const label = element(parent, "label", { class: "wide" }, name);
  const area = element(label, "textarea", { rows, spellcheck: false, "aria-label": name });
  area.value = value;
  area.oninput = () => changed(area.value);
  return area;
}

// A choice of one of some `options`.
function choice(parent, name, options, changed) {
  const label = element(parent, "label", {}, name);
  const node = element(label, "select", { "aria-label": name });
  options.forEach((option, value) => element(node, "option", { value }, option));
  node.oninput = () => changed(+node.value);
  return node;
}

// Rows of [name, share of the whole length, what is said of it, another color than blue].
function shareBars(parent, rows) {
  parent.replaceChildren();
  parent.className = "bars";
  for (const [name, share, says, color = "blue"] of rows) {
    element(parent, "span", {}, name);
    element(element(parent, "div", { "aria-hidden": true }), "i",
      { style: `width: ${100 * Math.min(Math.max(share, 0), 1)}%; background: var(--${color})` });
    element(parent, "span", {}, says);
  }
}

// Why a model should not be asked about these texts, or "".
function refused(bert, texts, most) {
  if (texts.some((text) => !text.trim())) return "Type something into every box.";
  const count = bert.encode(...texts.length > 1 ? texts : [texts[0]]).tokens.length;
  return count > most ? `${count} tokens: ${most} at most fit here. Take a shorter text.` : "";
}

// A slider with its name and number above it; `show` writes the number. Returns what moves it.
function slider(parent, name, { min, max, step = 1, value, show = String }, changed) {
  const label = element(parent, "label", { class: "slider" });
  const head = element(label, "span");
  const input = element(label, "input", { type: "range", min, max, step, "aria-label": name });
  const move = (to) => {
    input.value = to;
    head.textContent = `${name}: ${show(+input.value)}`;
    input.setAttribute("aria-valuetext", show(+input.value));
  };
  input.oninput = () => {
    changed(+input.value);
    move(input.value);
  };
  move(value);
  return move;
}

// Four buttons, and the keys ←, →, Home and End, that walk from place 0 to place `last`.
function stepper(root, parent, changed) {
  const state = { place: 0, last: 0 };
  const bar = row(parent, "tight");
  const go = (place) => {
    state.place = Math.min(Math.max(place, 0), state.last);
    [...bar.children].forEach((node, i) =>
      node.setAttribute("aria-disabled", state.place === (i < 2 ? 0 : state.last)),
    );
    changed(state.place);
  };
  const moves = { Home: () => go(0), ArrowLeft: () => go(state.place - 1),
    ArrowRight: () => go(state.place + 1), End: () => go(state.last) };
  ["|◀ start", "◀ back", "step ▶", "end ▶|"].forEach((name, i) =>
    button(bar, name, Object.values(moves)[i]),
  );
  root.addEventListener("keydown", (event) => {
    if (event.target.matches("input, textarea, select") || !moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  });
  return (last, place = 0) => {
    state.last = last;
    go(place);
  };
}

// A place in `picture` (an svg) that pointer and arrow keys can move: `dragged` is called with x and
// y of the picture, `pressed` with steps to the right and up.
function movable(picture, handle, dragged, pressed) {
  const drag = (event) => {
    const { x, y } = new DOMPoint(event.clientX, event.clientY)
      .matrixTransform(picture.getScreenCTM().inverse());
    dragged(x, y);
  };
  handle.onpointerdown = (event) => {
    handle.setPointerCapture(event.pointerId);
    handle.focus();
    event.preventDefault();
    drag(event);
  };
  handle.onpointermove = (event) => handle.hasPointerCapture(event.pointerId) && drag(event);
  handle.onkeydown = (event) => {
    const to = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (!to[event.key]) return;
    event.preventDefault();
    pressed(...to[event.key].map((step) => step * (event.shiftKey ? 5 : 1)));
  };
}

// Axes with a title. `xs` and `ys`: from, to, marks. `clear` begins anew, perhaps with other ends;
// `line` joins points [x, y], or numbers, which stand at 0, 1, 2 …
function chart(parent, title, [width, height], xs, ys) {
  const picture = draw(parent, "svg", { viewBox: `-52 -34 ${width + 66} ${height + 64}`, role: "img", "aria-label": title });
  const x = (value) => ((value - xs.from) / (xs.to - xs.from)) * width;
  const y = (value) => height - ((value - ys.from) / (ys.to - ys.from)) * height;
  draw(picture, "text", { x: 0, y: -14, class: "title" }, title);
  draw(picture, "path", { class: "axis", d: `M0 0V${height}H${width}` });
  const marks = draw(picture, "g"), lines = draw(picture, "g");
  const minus = (number) => `${number}`.replace("-", "−");
  return { lines, x, y,
    clear(to = {}) {
      Object.assign(xs, to.xs);
      Object.assign(ys, to.ys);
      for (const part of [marks, lines]) part.replaceChildren();
      for (const at of xs.marks) draw(marks, "text", { x: x(at), y: height + 22, "text-anchor": "middle" }, minus(at));
      for (const at of ys.marks) draw(marks, "text", { x: -8, y: y(at) + 6, "text-anchor": "end" }, minus(at));
    },
    line(points, color, dashed) {
      const places = points.map((point, i) => (Array.isArray(point) ? point : [i, point]));
      const d = "M" + places.map(([across, up]) => `${x(across).toFixed(1)} ${y(up).toFixed(1)}`).join("L");
      draw(lines, "path", { d, fill: "none", "stroke-width": 3.5, ...(dashed && { "stroke-dasharray": "9 5" }),
        stroke: color ? `var(--${color})` : "currentColor" });
    },
  };
}

// Chance from a seed: numbers from 0 to 1, always the same ones (mulberry32, in the public domain).
function chance(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// Who attends to whom: lines between two columns of tokens, and a small map of every head.
//
// It uses no library and asks no network. Layers, heads and tokens are counted from 0 here and shown
// from 1.

const STYLE = `
.bertedu-attention { font: 14px/1.4 system-ui, sans-serif; display: flex; flex-wrap: wrap; gap: 24px;
  color: var(--jp-ui-font-color1, inherit); }
.bertedu-attention figure { margin: 0; min-width: 0; }
.bertedu-attention figure[hidden] { display: none; }
.bertedu-attention .which { flex-basis: 100%; display: flex; flex-wrap: wrap; gap: 6px; }
.bertedu-attention figcaption { font-weight: 600; margin-bottom: 6px; }
.bertedu-attention .maps { display: inline-grid; gap: 4px; align-items: center; margin-bottom: 10px; }
.bertedu-attention .maps span { padding-right: 6px; white-space: nowrap; font-size: 13px; }
.bertedu-attention .maps .above { text-align: center; padding: 0; }
.bertedu-attention :is(.which, .maps) button { padding: 0; line-height: 0; background: none; cursor: pointer;
  border: 2px solid color-mix(in srgb, currentColor 30%, transparent); border-radius: 3px; color: inherit; }
.bertedu-attention :is(.which, .maps) button[aria-pressed=true] { border-color: #d55e00;
  box-shadow: 0 0 0 1px #d55e00; }
.bertedu-attention .which[role] button { padding: 3px 10px; line-height: 1.4; font: inherit; }
.bertedu-attention button canvas { width: 44px; height: 44px; image-rendering: pixelated; }
.bertedu-attention .board { width: max-content; }
.bertedu-attention .lines { display: flex; }
.bertedu-attention .heading { display: flex; justify-content: space-between; font-size: 13px; }
.bertedu-attention ol { list-style: none; font-family: ui-monospace, monospace;
  margin: 0 !important; padding: 0 !important; } /* JupyterLab would indent it, away from the lines */
.bertedu-attention li { height: var(--row); line-height: var(--row); font-size: var(--size);
  padding: 0 6px; border-radius: 3px; cursor: pointer; white-space: pre; display: flex; }
.bertedu-attention .queries li { justify-content: space-between; flex-direction: row-reverse; }
.bertedu-attention .keys li { justify-content: space-between; }
.bertedu-attention li.unseen span { opacity: .65; text-decoration: line-through; }
.bertedu-attention li small { width: 5.4ch; text-align: right; opacity: .85; font-size: .9em; }
.bertedu-attention .queries li small { text-align: left; }
.bertedu-attention li[aria-selected=true] { outline: 2px solid #d55e00; outline-offset: -2px; }
.bertedu-attention :focus-visible { outline: 3px solid #d55e00; outline-offset: 1px; }
.bertedu-attention .says { min-height: 4.2em; width: 0; min-width: 100%; margin: 6px 0 0; }
`;
const ON_WHITE = [0, 114, 178], ON_BLACK = [86, 180, 233]; // two blues of the same palette

let made = 0; // so that ids on one page differ

function element(parent, name, attributes = {}, text = "") {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text; // never as HTML: a token may be "<"
  parent.append(node);
  return node;
}

function bytes(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

// Dark theme or light? The page's own text color knows, and a reader may change it at any time.
function blue(node) {
  const [r, g, b] = (getComputedStyle(node).color.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
  return 0.3 * r + 0.6 * g + 0.1 * b > 128 ? ON_BLACK : ON_WHITE;
}

const percent = (share) => `${Math.round(100 * share)} %`;

// One model's panel. `view` has name, tokens, layers (their numbers), heads, and weights: one byte
// for each layer, head, query and key, 255 for a weight of 1. `told` hears of every token.
// `room` is the space between the two columns, in pixels.
function panel(root, view, room, told) {
  const { tokens, layers, heads } = view;
  const n = tokens.length;
  const weights = bytes(view.weights);
  const id = `bertedu-attention-${made++}`;
  const state = { layer: 0, head: 0, side: null, token: null, pinned: false };
  const weight = (query, key) =>
    weights[((state.layer * heads + state.head) * n + query) * n + key] / 255;
  const maySee = (query, key) =>
    view.direction === "left-to-right" ? key <= query
    : view.direction === "right-to-left" ? key >= query
    : true;

  const figure = element(root, "figure");
  element(figure, "figcaption", {}, view.name);

  // -- the small maps: one button a head
  const maps = element(figure, "div", {
    class: "maps",
    role: "group",
    "aria-label": `heads of ${view.name}: arrow keys choose`,
  });
  maps.style.gridTemplateColumns = `auto repeat(${heads}, max-content)`;
  element(maps, "span");
  for (let head = 0; head < heads; head++)
    element(maps, "span", { class: "above" }, heads > 6 ? `${head + 1}` : `head ${head + 1}`);
  const buttons = [], smalls = [];
  layers.forEach((number, layer) => {
    element(maps, "span", {}, `layer ${number}`);
    for (let head = 0; head < heads; head++) {
      const button = element(maps, "button", {
        type: "button",
        tabindex: "-1", // Tab stops at the chosen one only
        "aria-pressed": "false",
        "aria-label": `layer ${number}, head ${head + 1}`,
      });
      smalls.push(element(button, "canvas", { width: n, height: n, "aria-hidden": "true" }));
      button.addEventListener("click", () => choose(layer, head));
      buttons.push(button);
    }
  });
  maps.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const [down, right] = step[event.key] ?? [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    event.stopPropagation(); // JupyterLab would move to another cell
    const layer = Math.min(Math.max(state.layer + down, 0), layers.length - 1);
    const head = Math.min(Math.max(state.head + right, 0), heads - 1);
    choose(layer, head);
    buttons[layer * heads + head].focus();
  });

  // -- the two columns and the lines between them
  const row = n > 32 ? 16 : 23;
  const board = element(figure, "div", { class: "board" });
  const heading = element(board, "div", { class: "heading" });
  element(heading, "span", {}, "attends (query)");
  element(heading, "span", {}, "is attended to (key)");
  const lines = element(board, "div", { class: "lines" });
  lines.style.setProperty("--row", `${row}px`);
  lines.style.setProperty("--size", n > 32 ? "12px" : "15px");
  const column = (side, label) => {
    const list = element(lines, "ol", {
      class: side,
      role: "listbox",
      tabindex: "0",
      "aria-label": label,
    });
    const items = tokens.map((token, i) => {
      const item = element(list, "li", {
        role: "option",
        id: `${id}-${side}-${i}`,
        "aria-selected": "false",
      });
      element(item, "span", {}, token);
      return { item, share: element(item, "small") };
    });
    const under = (event) => {
      const item = event.target.closest("li");
      return item ? items.findIndex((one) => one.item === item) : null;
    };
    list.addEventListener("pointerover", (event) => {
      const token = under(event);
      if (token !== null && !state.pinned) isolate(side, token);
    });
    list.addEventListener("pointerleave", () => {
      if (!state.pinned) isolate(null, null);
    });
    list.addEventListener("click", (event) => {
      const token = under(event);
      if (token === null) return;
      const again = state.pinned && state.side === side && state.token === token;
      isolate(side, token, !again);
    });
    list.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (event.key !== "Escape" && !step) return;
      event.preventDefault();
      event.stopPropagation();
      if (event.key === "Escape") return isolate(null, null);
      const from = state.side === side ? state.token : step > 0 ? -1 : n;
      isolate(side, Math.min(Math.max(from + step, 0), n - 1), true);
    });
    return { list, items };
  };
  const queries = column("queries", "tokens that attend: up and down choose one, escape frees");
  const canvas = element(lines, "canvas", { "aria-hidden": "true" });
  lines.insertBefore(canvas, queries.list.nextSibling);
  const keys = column("keys", "tokens attended to: up and down choose one, escape frees");
  const sharp = window.devicePixelRatio || 1;
  canvas.width = room * sharp;
  canvas.height = n * row * sharp;
  canvas.style.width = `${room}px`;
  canvas.style.height = `${n * row}px`;
  const pen = canvas.getContext("2d");
  pen.scale(sharp, sharp);
  const says = element(figure, "p", { class: "says", "aria-live": "polite" });

  let painted; // the blue that the small maps have
  function paintMaps(color) {
    painted = color;
    smalls.forEach((small, place) => {
      const image = new ImageData(n, n);
      // the square root, so that small weights in a long text can be seen at all
      for (let i = 0; i < n * n; i++)
        image.data.set([...color, Math.sqrt(255 * weights[place * n * n + i])], 4 * i);
      small.getContext("2d").putImageData(image, 0, 0);
    });
  }

  function redraw() {
    figure.dataset.layer = layers[state.layer];
    figure.dataset.head = state.head + 1;
    buttons.forEach((button, i) => {
      const chosen = i === state.layer * heads + state.head;
      if ((button.getAttribute("aria-pressed") === "true") === chosen) return;
      button.setAttribute("aria-pressed", chosen);
      button.tabIndex = chosen ? 0 : -1;
    });
    const { side, token } = state;
    const line = blue(figure);
    if (line !== painted) paintMaps(line);
    pen.clearRect(0, 0, room, n * row);
    for (let query = 0; query < n; query++) {
      if (side === "queries" && query !== token) continue;
      for (let key = 0; key < n; key++) {
        if (side === "keys" && key !== token) continue;
        const share = weight(query, key);
        if (share < 0.01) continue; // nobody could see it
        // a root, so that an even fan of many keys can be seen, too; on black, thin lines need more
        pen.strokeStyle = `rgba(${line}, ${share ** (line === ON_BLACK ? 0.35 : 0.5)})`;
        pen.lineWidth = side ? 1 + 4 * share : 1 + share;
        pen.beginPath();
        pen.moveTo(0, (query + 0.5) * row);
        pen.lineTo(room, (key + 0.5) * row);
        pen.stroke();
      }
    }
    for (const [name, { list, items }] of Object.entries({ queries, keys })) {
      items.forEach(({ item, share }, i) => {
        const own = side === name && i === token;
        const other = side !== null && side !== name;
        const part = !other ? 0 : name === "keys" ? weight(token, i) : weight(i, token);
        const unseen = other && !(name === "keys" ? maySee(token, i) : maySee(i, token));
        item.setAttribute("aria-selected", own);
        item.classList.toggle("unseen", unseen);
        item.style.backgroundColor = part ? `rgba(${line}, ${0.6 * part})` : "";
        share.textContent = part >= 0.005 ? percent(part) : "";
        // read aloud as "because, 100 %", not as one word
        const read = unseen ? "hidden by the mask" : share.textContent;
        item.setAttribute("aria-label", read ? `${tokens[i]}, ${read}` : tokens[i]);
      });
      if (side === name) list.setAttribute("aria-activedescendant", items[token].item.id);
      else list.removeAttribute("aria-activedescendant");
    }
    says.textContent = sentence();
  }

  function sentence() {
    const where = `Layer ${layers[state.layer]}, head ${state.head + 1}`;
    if (state.side === null) return `${where}. Point at a token, or click it to hold it.`;
    const shares = tokens.map((_, i) =>
      state.side === "queries" ? weight(state.token, i) : weight(i, state.token),
    );
    const top = [...shares.keys()]
      .filter((i) => shares[i] >= 0.005)
      .sort((a, b) => shares[b] - shares[a])
      .slice(0, 3);
    const listed = top.map((i) => `“${tokens[i]}” ${percent(shares[i])}`).join(", ") || "no token";
    const token = `“${tokens[state.token]}”`;
    return state.side === "queries"
      ? `${where}: ${token} attends to ${listed}.`
      : `${where}: ${token} gets from ${listed}.`;
  }

  function choose(layer, head) {
    Object.assign(state, { layer, head });
    redraw();
  }

  function isolate(side, token, pinned = false, quietly = false) {
    Object.assign(state, { side, token, pinned });
    redraw();
    if (!quietly) told(side, token, pinned);
  }

  choose(...view.start);
  return { tokens, state, figure, choose, isolate, redraw };
}

// Buttons above the panels: all models side by side, or one alone, so that a click flips between
// them in place.
function switches(root, views, panels) {
  const bar = element(root, "div", { class: "which", role: "group", "aria-label": "models shown" });
  const buttons = ["all", ...views.map((view) => view.name)].map((name, place) => {
    const button = element(bar, "button", { type: "button", "aria-pressed": place === 0 }, name);
    button.addEventListener("click", () => {
      buttons.forEach((other, i) => other.setAttribute("aria-pressed", i === place));
      panels.forEach((one, i) => (one.figure.hidden = place > 0 && i !== place - 1));
    });
    return button;
  });
}

// Draw `data` (views, and the token that is held at the start) into `root`, in place of what is
// there.
function draw(root, data) {
  root.replaceChildren();
  root.classList.add("bertedu-attention");
  element(root, "style", {}, STYLE);
  // a plain key pressed in here belongs to the view: JupyterLab would cut or leave the cell
  root.onkeydown = (event) => {
    const runs = event.key === "Enter" && event.shiftKey;
    if (!event.ctrlKey && !event.metaKey && !event.altKey && !runs) event.stopPropagation();
  };
  const panels = [];
  if (data.views.length > 1) switches(root, data.views, panels);
  const room = data.views.length > 2 ? 90 : 190;
  data.views.forEach((view, index) =>
    panels.push(panel(root, view, room, (side, token, pinned) => {
      panels.forEach((other, i) => {
        // the same token in the panel beside it, if both read the same text
        const same = `${other.tokens}` === `${data.views[index].tokens}`;
        if (i !== index && same) other.isolate(side, token, pinned, true);
      });
    })),
  );
  if (data.query !== null) panels.forEach((one) => one.isolate("queries", data.query, true, true));
  root.attentionPanels = panels;
  root.watched ??= new MutationObserver(() => root.attentionPanels.forEach((one) => one.redraw()));
  root.watched.observe(document.documentElement, // JupyterLab's theme, the site's
    { attributeFilter: ["data-jp-theme-light", "data-theme"], subtree: true });
}

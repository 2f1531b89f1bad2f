// Scores, weights, mixture: three words of two numbers, to drag; the last one asks.
// data: words (three names), vectors (a pair of numbers each).

const UNIT = 58, REACH = 2.6; // pixels for 1; how far a vector may reach
const COLORS = ["blue", "green", "orange", "pink"]; // pink is the mixture
const clamp = (number) => Math.min(Math.max(Math.round(number * 20) / 20, -REACH), REACH);

// Scores of two numbers, what they would typically be with d numbers, divided or not; shares; mixture.
function attend(vectors, d, divided) {
  const query = vectors.at(-1);
  const dots = vectors.map((key) => query[0] * key[0] + query[1] * key[1]);
  const scores = dots.map((dot) => (dot * Math.sqrt(d / 2)) / (divided ? Math.sqrt(d) : 1));
  const top = Math.max(...scores);
  const positive = scores.map((score) => Math.exp(score - top));
  const sum = positive.reduce((a, b) => a + b);
  const shares = positive.map((one) => one / sum);
  const mixture = [0, 1].map((i) => vectors.reduce((all, v, k) => all + shares[k] * v[i], 0));
  return { dots, scores, shares, mixture };
}

function toy(root, data) {
  const vectors = data.vectors.map((vector) => [...vector]);
  const set = { d: 2, divided: false };
  const asks = data.words.at(-1);
  const board = element(root, "div", { class: "beside" });
  const side = UNIT * REACH + 26;
  const picture = draw(board, "svg", { viewBox: `${-side} ${-side} ${2 * side} ${2 * side}`,
    width: 2 * side, height: 2 * side, role: "group", "aria-label": "three vectors to move" });
  const right = element(board, "div");
  right.style.cssText = "flex: 1 1 380px; max-width: 560px";
  const controls = row(right);
  slider(controls, "d",
    { min: 1, max: 10, value: 1, show: (power) => `${2 ** power} numbers` },
    (power) => { set.d = 2 ** power; show(); });
  toggle(controls, "divide by √d", false, (on) => { set.divided = on; show(); });
  button(controls, "start again", () => {
    data.vectors.forEach((vector, i) => { vectors[i] = [...vector]; });
    show();
  });
  const table = element(right, "table");
  const says = element(right, "p", { class: "says", "aria-live": "polite" });

  for (let i = -2; i <= 2; i++) {
    draw(picture, "path", { class: "axis", d: `M${i * UNIT} ${side}V${-side}M${-side} ${i * UNIT}H${side}`,
      opacity: i ? 0.35 : 1 });
    if (i) {
      draw(picture, "text", { x: i * UNIT + 4, y: side - 4, opacity: 0.7 }, digits(i, 0));
      draw(picture, "text", { x: -side + 2, y: -i * UNIT - 5, opacity: 0.7 }, digits(i, 0));
    }
  }
  const arrows = [...data.words, `${asks}, after`].map((name, i) => {
    const group = draw(picture, "g");
    const color = `var(--${COLORS[i]})`;
    const mixed = i === data.words.length;
    const line = draw(group, "line", { stroke: color, "stroke-width": mixed ? 8 : 5,
      ...(mixed && { "stroke-dasharray": "9 5" }) });
    const head = draw(group, "path", { d: "M3 0L-19 -11V11Z", fill: color });
    const text = draw(group, "text", { class: "title", "text-anchor": "middle",
      style: `fill: color-mix(in srgb, ${color} 65%, currentColor)` }, name);
    if (!mixed) {
      const handle = draw(group, "circle", { class: "handle", r: 20, fill: color,
        "fill-opacity": 0.18, tabindex: 0, role: "slider", "aria-valuemin": -REACH, "aria-valuemax": REACH,
        "aria-label": `${name}${name === asks ? ", who asks" : ""}: arrow keys move it` });
      const move = (x, y) => { vectors[i] = [clamp(x), clamp(y)]; show(); };
      movable(picture, handle, (x, y) => move(x / UNIT, -y / UNIT),
        (x, y) => move(vectors[i][0] + x / 10, vectors[i][1] + y / 10));
      group.handle = handle;
    }
    return { group, line, head, text };
  });

  function place({ group, line, head, text }, [x, y], taken) {
    const [across, down] = [x * UNIT, -y * UNIT];
    for (const [key, value] of Object.entries({ x1: 0, y1: 0, x2: across, y2: down }))
      line.setAttribute(key, value);
    const angle = (Math.atan2(down, across) * 180) / Math.PI;
    head.setAttribute("transform", `translate(${across} ${down}) rotate(${angle})`);
    // the name beyond the head, inside the picture, and not upon another name
    const wide = text.getComputedTextLength() / 2;
    const at = [Math.min(Math.max(across, wide - side), side - wide), down + (down > 0 ? 42 : -26)];
    while (taken.some(([u, v, w]) => Math.abs(u - at[0]) < w + wide + 6 && Math.abs(v - at[1]) < 20))
      at[1] += down > 0 || down < 20 - side ? 10 : -10;
    taken.push([...at, wide]);
    text.setAttribute("x", at[0]);
    text.setAttribute("y", at[1]);
    group.handle?.setAttribute("cx", across);
    group.handle?.setAttribute("cy", down);
    group.handle?.setAttribute("aria-valuenow", x);
    group.handle?.setAttribute("aria-valuetext", `${digits(x)}, ${digits(y)}`);
  }

  function show() {
    const { dots, scores, shares, mixture } = attend(vectors, set.d, set.divided);
    const taken = [];
    arrows.forEach((arrow, i) => place(arrow, vectors[i] ?? mixture, taken));
    table.replaceChildren();
    const head = element(table, "tr");
    for (const name of ["key", `${asks} · key`, "score", "weight"])
      element(head, "th", { scope: "col" }, name);
    head.lastChild.style.textAlign = "left";
    data.words.forEach((word, i) => {
      const line = element(table, "tr");
      element(line, "td", {}, word);
      element(line, "td", {}, digits(dots[i]));
      element(line, "td", {}, digits(scores[i]));
      const bar = element(line, "td", { class: "bar" });
      bar.style.cssText = "width: 150px; text-align: left";
      const ink = element(bar, "span", { class: `cell ${COLORS[i]}` });
      ink.style.cssText = `width: ${Math.round(90 * shares[i])}px; padding: 0; margin-right: 8px;
        height: 22px; vertical-align: middle; background: var(--${COLORS[i]})`;
      bar.append(`${Math.round(100 * shares[i])} %`);
    });
    const most = shares.indexOf(Math.max(...shares));
    const grown = set.d > 2 ? ` ${set.d} random numbers make products √(${set.d}/2) = ` +
      `${digits(Math.sqrt(set.d / 2), 1)} times as large as 2 numbers do.` : "";
    const divided = set.divided ? ` Then √${set.d} = ${digits(Math.sqrt(set.d), 1)} divides them.` : "";
    says.textContent = `“${asks}” gives ${Math.round(100 * shares[most])} % to “${data.words[most]}” and ` +
      `becomes (${mixture.map((number) => digits(number)).join(", ")}).${grown}${divided}`;
  }

  show();
  return { attend };
}

// Layer norm on eight numbers: what it makes of them, and what it forgets.
// data: numbers.

const WIDTH = 330, HEIGHT = 220, EPS = 1e-12;

function normalize(numbers, gamma, beta) {
  const mean = numbers.reduce((a, b) => a + b) / numbers.length;
  const variance = numbers.reduce((sum, x) => sum + (x - mean) ** 2, 0) / numbers.length;
  const result = numbers.map((x) => (gamma * (x - mean)) / Math.sqrt(variance + EPS) + beta);
  return { mean, spread: Math.sqrt(variance), result };
}

// Bars around a line at 0, their numbers below, mean and standard deviation behind them.
function bars(parent, title, count, color) {
  const figure = element(parent, "figure", { class: "share" });
  const head = element(figure, "b", {}, title);
  const picture = draw(figure, "svg", { viewBox: `-44 -12 ${WIDTH + 50} ${HEIGHT + 44}`,
    role: "group", "aria-label": title });
  const band = draw(picture, "rect", { x: 0, width: WIDTH, fill: "var(--pink)", "fill-opacity": 0.3 });
  draw(picture, "path", { class: "axis", d: `M0 0V${HEIGHT}M0 ${HEIGHT / 2}H${WIDTH}` });
  const marks = [1, 0, -1].map((side) => draw(picture, "text",
    { x: -8, y: (HEIGHT / 2) * (1 - side) + 6, "text-anchor": "end" }));
  const wide = WIDTH / count;
  const columns = Array.from({ length: count }, (_, i) => ({
    bar: draw(picture, "rect", { x: i * wide + 7, width: wide - 14, fill: `var(--${color})` }),
    text: draw(picture, "text", { x: (i + 0.5) * wide, y: HEIGHT + 26, "text-anchor": "middle",
      style: "font-size: 15px" }),
  }));
  const mean = draw(picture, "path", { stroke: "currentColor", "stroke-width": 3,
    "stroke-dasharray": "9 5" });
  let top = 4;
  const y = (value) => (HEIGHT / 2) * (1 - value / top);
  return { picture, columns, wide, value: (at) => top * (1 - (2 * at) / HEIGHT),
    show(numbers, middle, spread, fixed) {
      // 4, 8, 16, …: the scale grows in steps, and not while a bar is dragged
      if (!fixed) top = 2 ** Math.max(2, Math.ceil(Math.log2(Math.max(...numbers.map(Math.abs)))));
      [1, 0, -1].forEach((side, i) => { marks[i].textContent = digits(side * top, 0); });
      numbers.forEach((number, i) => {
        columns[i].bar.setAttribute("y", Math.min(y(number), y(0)));
        columns[i].bar.setAttribute("height", Math.max(Math.abs(y(number) - y(0)), 1));
        columns[i].text.textContent = digits(number, Math.abs(number) < 9.95 ? 1 : 0);
      });
      mean.setAttribute("d", `M0 ${y(middle)}H${WIDTH}`);
      band.setAttribute("y", y(middle + spread));
      band.setAttribute("height", y(middle - spread) - y(middle + spread));
      head.textContent = `${title}: mean ${digits(middle)}, standard deviation ${digits(spread)}`;
    } };
}

function toy(root, data) {
  let numbers = [...data.numbers], before = null;
  const set = { gamma: 1, beta: 0 };
  const controls = row(root);
  const all = row(controls, "tight");
  for (const [name, change] of [["all + 1", (x) => x + 1], ["all − 1", (x) => x - 1],
    ["all × 2", (x) => 2 * x], ["all ÷ 2", (x) => x / 2], ["all × −1", (x) => -x]])
    button(all, name, () => {
      const next = numbers.map(change);
      if (Math.max(...next.map(Math.abs)) <= 1024) numbers = next;
      show();
    });
  button(all, "start again", () => { numbers = [...data.numbers]; show(); });
  const learned = row(controls);
  slider(learned, "γ", { min: -2, max: 3, step: 0.1, value: 1, show: (x) => digits(x, 1) },
    (gamma) => { set.gamma = gamma; show(); });
  slider(learned, "β", { min: -3, max: 3, step: 0.1, value: 0, show: (x) => digits(x, 1) },
    (beta) => { set.beta = beta; show(); });
  const says = element(root, "p", { class: "says", "aria-live": "polite" });
  const board = element(root, "div", { class: "beside" });
  const left = bars(board, "before", numbers.length, "blue");
  const right = bars(board, "after", numbers.length, "green");
  element(root, "small", {}, "dashed: the mean; shaded: one standard deviation above and below it");

  const handles = left.columns.map((_, i) => {
    const handle = draw(left.picture, "rect", { class: "handle", x: i * left.wide + 3, width: left.wide - 6,
      y: -6, height: HEIGHT + 40, fill: "transparent", tabindex: 0, role: "slider",
      "aria-orientation": "vertical", "aria-valuemin": -1024, "aria-valuemax": 1024,
      "aria-label": `number ${i + 1}: up and down change it, left and right go on` });
    const change = (value, fixed) => {
      numbers[i] = Math.round(10 * Math.min(Math.max(value, -1024), 1024)) / 10;
      show(fixed);
    };
    movable(left.picture, handle,
      (_, y) => change(left.value(Math.min(Math.max(y, 0), HEIGHT)), true),
      (across, up) => across ? handles[i + Math.sign(across)]?.focus() : change(numbers[i] + up / 10));
    handle.onpointerup = () => show();
    return handle;
  });

  function show(fixed = false) {
    const { mean, spread, result } = normalize(numbers, set.gamma, set.beta);
    left.show(numbers, mean, spread, fixed);
    const after = normalize(result, 1, 0);
    right.show(result, after.mean, after.spread, fixed);
    handles.forEach((handle, i) => {
      handle.setAttribute("aria-valuenow", numbers[i]);
      handle.setAttribute("aria-valuetext", digits(numbers[i], 1));
    });
    const moved = before && Math.max(...result.map((x, i) => Math.abs(x - before[i])));
    before = result;
    const told = moved === null ? "Drag a bar, or press a button: what changes after the norm?"
      : moved < 0.005 ? "After the norm, nothing has changed."
      : `After the norm, numbers have changed by up to ${digits(moved)}.`;
    says.textContent = spread < 1e-5 ? "All numbers are the same: there is nothing to tell apart, and β is left." : told;
  }

  show();
  return { normalize };
}

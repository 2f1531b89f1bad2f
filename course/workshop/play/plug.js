// A run is stopped, and goes on with what was saved. What must that have been?
// data: seed.

const STEPS = 200, START = 4, NOISE = 3, PEAK = 0.1, WARMUP = 20;
const PARTS = { weight: "the weight", averages: "m and v", step: "the step", place: "the place in the data" };
const FRESH = { weight: START, averages: [0, 0], step: 0, place: 0 };

const rateAt = (step) => PEAK * Math.min((step + 1) / WARMUP, (STEPS - step) / (STEPS - WARMUP));

// One step of Adam on the loss x² / 2: the gradient is x, with the noise of the next piece of data.
function move({ weight, averages: [m, v], step, place }, noise) {
  const gradient = weight + noise[place];
  m = 0.9 * m + 0.1 * gradient;
  v = 0.999 * v + 0.001 * gradient ** 2;
  const t = step + 1;
  const far = (m / (1 - 0.9 ** t)) / (Math.sqrt(v / (1 - 0.999 ** t)) + 1e-8);
  return { weight: weight - rateAt(step) * far, averages: [m, v], step: t, place: place + 1 };
}

// What each piece of data adds to the gradient.
function noises(seed) {
  const dice = chance(seed);
  return Array.from({ length: STEPS }, () => NOISE * (2 * dice() - 1));
}

// All states from one on, `count` steps long.
function follow(state, count, noise) {
  const states = [state];
  while (states.length <= count) states.push(move(states.at(-1), noise));
  return states;
}

function toy(root, data) {
  const saved = { weight: true, averages: false, step: false, place: false };
  let stop = 60, seed = data.seed;
  const controls = row(root);
  slider(controls, "the plug is pulled after step", { min: 10, max: 190, step: 10, value: stop },
    (to) => { stop = to; show(); });
  const boxes = row(controls, "tight");
  element(boxes, "span", {}, "saved:");
  for (const [part, name] of Object.entries(PARTS))
    toggle(boxes, name, saved[part], (on) => { saved[part] = on; show(); });
  button(controls, "other data", () => { seed++; show(); });
  const says = element(root, "p", { class: "says", "aria-live": "polite" });
  const legend = row(root);
  for (const [color, name] of [["blue", "never stopped"], ["orange", "resumed (dashed)"]])
    cell(legend, name, color).style.font = "inherit";
  const board = element(root, "div", { class: "beside" });
  const [left, right] = [1, 2].map(() => element(board, "div", { class: "share" }));
  const steps = { from: 0, to: STEPS, marks: [0, 50, 100, 150, 200] };
  const path = chart(left, "the weight, step by step (best: 0)", [360, 220], { ...steps },
    { from: -2, to: 5, marks: [-2, 0, 2, 4] });
  const apart = chart(right, "how far apart the two runs are", [360, 220], { ...steps },
    { from: 0, to: 1, marks: [0, 0.5, 1] });

  // The run that never stops, and the one that goes on with what was saved; all else begins anew.
  function runs(kept, at, from) {
    const noise = noises(from);
    const whole = follow(FRESH, STEPS, noise);
    const state = Object.fromEntries(Object.keys(FRESH).map((part) => [part, (kept[part] ? whole[at] : FRESH)[part]]));
    return [whole, follow(state, STEPS - at, noise)].map((states) => states.map(({ weight }) => weight));
  }

  function show() {
    const [whole, resumed] = runs(saved, stop, seed);
    const gaps = resumed.map((weight, i) => Math.abs(weight - whole[stop + i]));
    const most = Math.max(...gaps), top = Math.max(1, Math.ceil(most));
    path.clear();
    apart.clear({ ys: { to: top, marks: [0, top / 2, top] } });
    path.line(whole, "blue");
    for (const { lines, x } of [path, apart])
      draw(lines, "path", { d: `M${x(stop)} 0v220`, stroke: "currentColor", "stroke-width": 2 });
    path.line(resumed.map((weight, i) => [stop + i, weight]), "orange", true);
    apart.line(gaps.map((gap, i) => [stop + i, gap]), "orange", true);
    const lost = Object.keys(PARTS).filter((part) => !saved[part]).map((part) => PARTS[part]);
    says.textContent = most === 0 ? "The resumed run is the run: not one number differs."
      : `Without ${new Intl.ListFormat("en").format(lost)}: up to ${digits(most, 3)} apart, and ${digits(gaps.at(-1), 3)} at the end.`;
  }

  show();
  return { runs, noises };
}

// The learning rate rises, then falls; a toy loss shows what that does to Adam's first steps.
// data: peak, warmup_share, steps, seed.

const RUNS = 40, START = 2, NOISE = 0.2, BETA1 = 0.9, BETA2 = 0.999, EPS = 1e-6;
const DONE = 0.1; // a loss below it: the run ended in the valley

// Near 0 a parabola, far away a plain, where the slope is smaller than the noise.
const loss = (x) => (x * x) / (1 + x * x);
const slope = (x) => (2 * x) / (1 + x * x) ** 2;

// Python rounds a half to the even neighbor.
const roundEven = (x) => (x % 1 === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

function rates({ peak, share, steps }) {
  const warmup = Math.max(1, roundEven(share * steps));
  return Array.from({ length: steps }, (_, step) =>
    peak * Math.min((step + 1) / warmup, (steps - step) / Math.max(1, steps - warmup), 1));
}

// Normally distributed numbers (Box and Muller).
function noises(seed, steps) {
  const next = chance(seed);
  return Array.from({ length: steps }, () =>
    NOISE * Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()));
}

// Adam from START: the place before each step, and the last one.
function descend(rate, noise, corrected) {
  const path = [START];
  let m = 0, v = 0;
  rate.forEach((now, step) => {
    const x = path.at(-1);
    const gradient = slope(x) + noise[step];
    m = BETA1 * m + (1 - BETA1) * gradient;
    v = BETA2 * v + (1 - BETA2) * gradient ** 2;
    const mean = corrected ? m / (1 - BETA1 ** (step + 1)) : m;
    const square = corrected ? v / (1 - BETA2 ** (step + 1)) : v;
    path.push(x - (now * mean) / (Math.sqrt(square) + EPS));
  });
  return path;
}

function toy(root, data) {
  const set = { peak: data.peak, share: data.warmup_share, steps: data.steps, seed: data.seed, corrected: false };
  const controls = row(root);
  const two = (x) => `${Number(x.toPrecision(2))}`;
  slider(controls, "peak rate", { min: -20, max: 5, value: 10 * Math.log10(set.peak), show: () => two(set.peak) },
    (n) => { set.peak = Number(two(10 ** (n / 10))); show(); });
  slider(controls, "warm-up", { min: 0, max: 50, value: Math.round(100 * set.share), show: (n) => `${n} %` },
    (n) => { set.share = n / 100; show(); });
  slider(controls, "steps", { min: 50, max: 400, step: 10, value: set.steps }, (n) => { set.steps = n; show(); });
  toggle(controls, "bias correction", false, (on) => { set.corrected = on; show(); });
  button(controls, "other noise", () => { set.seed += RUNS; show(); });
  const says = element(root, "p", { class: "says", "aria-live": "polite" });
  const legend = row(root);
  for (const [color, name] of [["blue", "● with this warm-up"], ["orange", "■ the same run at full rate from the start"]])
    cell(legend, name, color).style.font = "inherit";
  const board = element(root, "div", { class: "beside" });
  const [left, right] = [1, 2].map(() => element(board, "div", { class: "share" }));
  const span = { from: 0, to: set.steps, marks: [] };
  const above = chart(left, "learning rate", [340, 90], { ...span }, { from: 0, to: 1, marks: [] });
  const below = chart(left, "loss, step by step", [340, 140], { ...span }, { from: 0, to: 1, marks: [0, 0.5, 1] });
  const valley = chart(right, "where the weight has been", [340, 286],
    { from: -6, to: 6, marks: [-6, -3, 0, 3, 6] }, { from: 0, to: 1, marks: [0, 0.5, 1] });
  const curve = Array.from({ length: 121 }, (_, i) => [i / 10 - 6, loss(i / 10 - 6)]);

  // round dots, or squares; what lies outside stands at the edge
  function dots(places, color, square) {
    places.forEach((x, i) => {
      const at = Math.min(Math.max(x, -5.7), 5.7), last = i === places.length - 1;
      const r = last ? 12 : 4;
      const [cx, cy] = [valley.x(at), valley.y(loss(at))];
      draw(valley.lines, "rect", { x: cx - r, y: cy - r, width: 2 * r, height: 2 * r, rx: square ? 0 : r,
        fill: `var(--${color})`, "fill-opacity": last ? 1 : 0.5, ...(last && { stroke: "currentColor", "stroke-width": 2 }) });
    });
  }

  function show() {
    const own = rates(set), full = rates({ ...set, share: 0 });
    const ends = [own, full].map((rate) => Array.from({ length: RUNS }, (_, i) =>
      descend(rate, noises(set.seed + i, set.steps), set.corrected)));
    const good = ends.map((runs) => runs.filter((run) => loss(run.at(-1)) < DONE).length);
    const xs = { to: set.steps, marks: [0, set.steps / 2, set.steps] };
    above.clear({ xs, ys: { to: set.peak, marks: [0, set.peak] } });
    below.clear({ xs });
    valley.clear();
    above.line(full, "orange", true);
    above.line(own, "blue");
    below.line(ends[1][0].map(loss), "orange", true);
    below.line(ends[0][0].map(loss), "blue");
    valley.line(curve);
    dots(ends[1][0], "orange", true);
    dots(ends[0][0], "blue");
    const moved = ends[0][0][1] - START;
    says.textContent = `Of ${RUNS} runs, each with other noise, ${good[0]} end in the valley; at full rate from ` +
      `the start, ${good[1]}. The first step here moves ${digits(Math.abs(moved), 3)}.`;
  }

  show();
  return { rates, noises, descend };
}

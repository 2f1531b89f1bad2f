// Three small networks learn a language whose probabilities are known. How low can each get?
// data: words (how many); start, next and emit of its states, as pairs [which, share] (no such state:
// the end); fresh (sentences to test on, as numbers of words); limits (of each reader, exact); seed.

const BATCH = 64, HIDDEN = 24, FAR = 9, EVERY = 20, PEAK = 0.02, MOST = 1000; // FAR: words of a sentence
const READERS = [["left only", "orange", (at, i) => at < i], ["right only", "green", (at, i) => at > i],
  ["both", "blue", (at, i) => at !== i]];

function pick(pairs, dice) {
  let left = dice();
  for (const [which, share] of pairs) if ((left -= share) < 0) return which;
  return pairs.at(-1)[0];
}

function write({ start, next, emit }, dice) {
  const sentence = [];
  for (let state = pick(start[0], dice); state < emit.length; state = pick(next[state], dice))
    sentence.push(pick(emit[state], dice));
  return sentence;
}

// A network with one hidden layer. What it sees of a sentence: the place of the blank, and each word
// at its distance from the blank; behind the last word stands an end.
function reader(W, sees, dice) {
  const words = W + 1, table = new Float64Array((2 * FAR * words + FAR) * HIDDEN), out = new Float64Array(W * (HIDDEN + 1));
  const parts = [table, out].map((x) => ({ x, slope: x.slice(), m: x.slice(), v: x.slice() }));
  for (const x of [table, out]) x.forEach((_, i) => { x[i] = 0.2 * (dice() - 0.5); });
  const h = new Float64Array(HIDDEN), back = new Float64Array(HIDDEN), scores = new Float64Array(W);
  let step = 0;

  function rows(sentence, blank) {
    const found = [(2 * FAR * words + blank) * HIDDEN];
    for (let at = 0; at <= sentence.length; at++)
      if (sees(at, blank)) found.push(((at - blank + FAR) * words + (sentence[at] ?? W)) * HIDDEN);
    return found;
  }

  function shares(from) {
    for (let j = 0; j < HIDDEN; j++) {
      let sum = 0;
      for (const place of from) sum += table[place + j];
      h[j] = Math.tanh(sum);
    }
    let all = 0;
    for (let word = 0, w = 0; word < W; word++) {
      let sum = 0;
      for (let j = 0; j < HIDDEN; j++) sum += h[j] * out[w++];
      all += scores[word] = Math.exp(sum + out[w++]);
    }
    for (let word = 0; word < W; word++) scores[word] /= all;
    return scores;
  }

  const loss = (blanks) => blanks.reduce((sum, [sentence, blank]) =>
    sum - Math.log(shares(rows(sentence, blank))[sentence[blank]]), 0) / blanks.length;

  // One step of Adam, at a rate that falls to 0; rows of the table that no blank has seen stay.
  function learn(blanks) {
    const [tables, outs] = parts, seen = new Set();
    for (const [sentence, blank] of blanks) {
      const from = rows(sentence, blank), wrong = shares(from);
      for (const place of from) seen.add(place);
      wrong[sentence[blank]] -= 1;
      back.fill(0);
      for (let word = 0, w = 0; word < W; word++) {
        for (let j = 0; j < HIDDEN; j++, w++) {
          back[j] += wrong[word] * out[w];
          outs.slope[w] += (wrong[word] * h[j]) / BATCH;
        }
        outs.slope[w++] += wrong[word] / BATCH;
      }
      for (let j = 0; j < HIDDEN; j++) {
        const down = (back[j] * (1 - h[j] ** 2)) / BATCH;
        for (const place of from) tables.slope[place + j] += down;
      }
    }
    const rate = PEAK * (1 - step / MOST);
    step++;
    const scale = Math.sqrt(1 - 0.999 ** step) / (1 - 0.9 ** step);
    const update = ({ x, slope, m, v }, first, last) => {
      for (let i = first; i < last; i++) {
        m[i] += 0.1 * (slope[i] - m[i]);
        v[i] += 0.001 * (slope[i] ** 2 - v[i]);
        x[i] -= (rate * scale * m[i]) / (Math.sqrt(v[i]) + 1e-8);
        slope[i] = 0;
      }
    };
    for (const place of seen) update(tables, place, place + HIDDEN);
    update(outs, 0, out.length);
  }

  return { learn, loss };
}

function toy(root, data) {
  const W = data.words;
  const test = data.fresh.flatMap((sentence) => sentence.map((_, blank) => [sentence, blank]));
  let dice, readers, curves, step, frame = 0;
  const bar = row(root, "tight");
  const trains = toggle(bar, "train (t)", false, (on) => { on ? next() : pause(); });
  button(bar, "start again", start);
  root.addEventListener("keydown", (event) => {
    if (event.key === "t" && !event.ctrlKey && !event.metaKey && !event.altKey) trains.click();
  });
  const says = element(root, "p", { class: "says", "aria-live": "polite" });
  const space = element(root, "div", { style: "max-width: 860px" });
  const wide = chart(space, "loss at the blanks of fresh sentences, nats; dashed: the exact limits", [640, 260],
    { from: 0, to: MOST, marks: [0, 250, 500, 750, 1000] }, { from: 0.5, to: 4, marks: [1, 2, 3, 4] });
  const table = element(root, "table");

  function start() {
    pause();
    dice = chance(data.seed);
    readers = READERS.map(([, , sees]) => reader(W, sees, dice));
    curves = READERS.map(() => []);
    step = 0;
    score();
    show();
    says.textContent = "Three networks that know nothing. Train them.";
  }

  const score = () => readers.forEach((one, i) => curves[i].push([step, one.loss(test)]));

  // Each step has a batch of new sentences, with a word of each hidden, the same for all three.
  function train(steps) {
    while (steps-- && step < MOST) {
      const batch = Array.from({ length: BATCH }, () => {
        const sentence = write(data, dice);
        return [sentence, Math.floor(dice() * sentence.length)];
      });
      for (const one of readers) one.learn(batch);
      if (++step % EVERY === 0) score();
    }
  }

  function next() {
    const until = performance.now() + 25;
    do train(1); while (performance.now() < until && step < MOST);
    show();
    if (step === MOST || !root.isConnected) pause();
    else frame = requestAnimationFrame(next);
  }

  function pause() {
    cancelAnimationFrame(frame);
    trains.setAttribute("aria-pressed", false);
    if (!step) return;
    const told = READERS.map(([name], i) => `${name} ${digits(curves[i].at(-1)[1])}`);
    says.textContent = `After ${step.toLocaleString("en")} steps: ${told.join(", ")} nats.`;
  }

  function show() {
    wide.clear();
    table.replaceChildren();
    const head = element(table, "tr");
    for (const name of ["reader", "loss", "limit", "above it"]) element(head, "th", { scope: "col" }, name);
    READERS.forEach(([name, color], i) => {
      const limit = data.limits[i], now = curves[i].at(-1)[1];
      wide.line([[0, limit], [MOST, limit]], color, true);
      wide.line(curves[i], color);
      const line = element(table, "tr");
      cell(element(line, "td"), name, color).style.font = "inherit";
      for (const text of [digits(now, 3), digits(limit, 3), `${digits(100 * (now / limit - 1), 1)} %`]) element(line, "td", {}, text);
    });
  }

  start();
  return { train: (steps) => { train(steps); show(); return curves.map((curve) => curve.at(-1)[1]); } };
}

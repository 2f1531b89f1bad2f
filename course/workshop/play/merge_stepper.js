// Training a vocabulary: count every pair of neighbors, join the most frequent, and again.
// data: corpus ("hug 10, pug 5"), min_count.

const ROWS = 7; // of the table: the best pairs
const LONGEST = 40; // letters of a word

// "hug 10, pug 5" as a Map from word to count; a string says what is wrong with it.
function readCorpus(text) {
  const counts = new Map();
  for (const part of text.split(/[,;\n]/).map((one) => one.trim()).filter(Boolean)) {
    const [, word, count] = part.match(/^(\S+)\s+([1-9]\d*)$/) ?? [];
    if (!word) return `“${short(part)}” is not a word and how often it was read, such as hug 10.`;
    if (word.length > LONGEST) return `“${short(word)}” has ${word.length} letters; ${LONGEST} at most fit here.`;
    counts.set(word, (counts.get(word) ?? 0) + Number(count));
  }
  return counts.size ? counts : "Type words and how often each was read, such as hug 10, pug 5.";
}

// As Python compares strings: by code point.
function compare(a, b) {
  const [first, second] = [a, b].map((text) => [...text].map((c) => c.codePointAt(0)));
  for (let i = 0; i < Math.min(first.length, second.length); i++)
    if (first[i] !== second[i]) return first[i] - second[i];
  return first.length - second.length;
}

const add = (counter, key, count) => counter.set(key, (counter.get(key) ?? 0) + count);

// All pairs, the best first: by count, or by the ratio and then by count; then by the alphabet.
function pairsOf(spelling, counts, byRatio) {
  const singles = new Map(), together = new Map();
  for (const [word, pieces] of spelling) {
    for (const piece of pieces) add(singles, piece, counts.get(word));
    for (let i = 1; i < pieces.length; i++)
      add(together, `${pieces[i - 1]}\0${pieces[i]}`, counts.get(word));
  }
  const pairs = [...together].map(([pair, count]) => {
    const [left, right] = pair.split("\0");
    const [a, b] = [singles.get(left), singles.get(right)];
    return { left, right, count, a, b, score: byRatio ? count / (a * b) : count };
  });
  return pairs.sort((x, y) => y.score - x.score || y.count - x.count ||
    compare(x.left, y.left) || compare(x.right, y.right));
}

function join(pieces, { left, right }) {
  const joined = [];
  for (const piece of pieces)
    if (joined.length && joined.at(-1) === left && piece === right)
      joined[joined.length - 1] += right.replace(/^##/, "");
    else joined.push(piece);
  return joined;
}

// The whole training: a state before each merge, and one at the end.
function train(counts, minCount, byRatio) {
  let spelling = new Map([...counts.keys()].map((word) =>
    [word, [...word].map((c, i) => (i ? "##" : "") + c)]));
  const states = [];
  for (;;) {
    const pairs = pairsOf(spelling, counts, byRatio);
    const best = pairs.find(({ count }) => count >= minCount);
    states.push({ spelling, pairs, best });
    if (!best) return states;
    spelling = new Map([...spelling].map(([word, pieces]) => [word, join(pieces, best)]));
  }
}

function toy(root, data) {
  const set = { minCount: data.min_count, byRatio: false };
  let counts, states;
  const top = row(root);
  const input = field(top, "words and counts", data.corpus, read, 44);
  const middle = row(root);
  const walk = stepper(root, middle, show);
  toggle(middle, "by ratio", false, (on) => { set.byRatio = on; read(); });
  slider(middle, "seen at least", { min: 1, max: 10, value: set.minCount, show: (n) => `${n} ×` },
    (n) => { set.minCount = n; read(); });
  const says = element(root, "p", { class: "says", "aria-live": "polite" });
  const board = element(root, "div", { class: "beside" });
  const table = element(board, "table");
  const words = element(board, "div", { class: "words" });
  const list = row(root, "tight merges");

  function read() {
    const found = readCorpus(input.value);
    input.setAttribute("aria-invalid", typeof found === "string");
    if (typeof found === "string") return (says.textContent = found); // the last good one stays
    counts = found;
    states = train(counts, set.minCount, set.byRatio);
    walk(states.length - 1);
  }

  function show(place) {
    const { spelling, pairs, best } = states[place];
    const last = states[place - 1]?.best;
    const made = last && last.left + last.right.replace(/^##/, "");
    table.replaceChildren();
    const head = element(table, "tr");
    const columns = ["pair", "together", ...(set.byRatio ? ["each alone", "ratio"] : [])];
    for (const name of columns) element(head, "th", { scope: "col" }, name);
    // the pair that is joined next stays in sight, even below rarer ones
    const enough = pairs.filter(({ count }) => count >= set.minCount);
    const rare = pairs.filter(({ count }) => count < set.minCount);
    for (const pair of [...enough, ...rare].slice(0, ROWS)) {
      const line = element(table, "tr", pair === best ? { class: "best" } : {});
      const name = element(line, "td");
      for (const piece of [pair.left, pair.right]) {
        cell(name, piece, pair === best ? "orange" : "");
        name.append(" ");
      }
      const few = pair.count < set.minCount;
      element(line, "td", {}, `${pair.count}${few ? ", too rare" : ""}`);
      if (!set.byRatio) continue;
      element(line, "td", {}, `${pair.a} · ${pair.b}`);
      element(line, "td", {}, few ? "" : pair.score.toFixed(3));
    }
    if (pairs.length > ROWS)
      element(element(table, "tr"), "td", { colspan: columns.length }, `and ${pairs.length - ROWS} more`);
    words.replaceChildren();
    const wide = Math.max(...[...counts.values()].map((count) => `${count}`.length));
    for (const [word, pieces] of spelling) {
      const line = row(words, "tight");
      cell(line, `${counts.get(word)} ×`.padStart(wide + 2), "bare");
      pieces.forEach((piece) => cell(line, piece, piece === made ? "green" : ""));
    }
    list.replaceChildren();
    element(list, "b", {}, "merges:");
    states.slice(0, place).forEach((state) =>
      cell(list, state.best.left + state.best.right.replace(/^##/, ""), "blue"));
    if (!place) element(list, "span", {}, "none yet");
    const before = last ? `Merge ${place} made “${made}”. ` : "";
    says.textContent = before + (best
      ? `The best pair is “${best.left}” “${best.right}”: ` +
        (set.byRatio ? `${best.count} / (${best.a} · ${best.b}) = ${best.score.toFixed(3)}.` : `${best.count} times.`)
      : pairs.length ? "No pair is frequent enough." : "Every word is one piece.");
  }

  read();
  return { merges: (text, minCount, byRatio) => train(readCorpus(text), minCount, byRatio)
    .map(({ best }) => best).filter(Boolean) };
}

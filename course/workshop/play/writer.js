// Masked diffusion: a text of blanks is filled in some passes; the words come out of order.
// data: start, blanks, passes and heats to choose from, recorded {"passes heat order": [a writing…]},
// where a writing is [words, the pass of each]. With its weights at hand the page writes itself.

const ORDERS = ["surest first", "any order"];

function toy(root, data, [bert]) {
  const top = row(root), bars = row(root);
  const begin = bert && field(top, "beginning", data.start, again, 28);
  let passes = data.passes.indexOf(data.shown[0]), heat = data.heats.indexOf(data.shown[1]);
  let order = 0, draw = 0, written = { words: [], when: [] };
  slider(bars, "passes", { min: 0, max: data.passes.length - 1, value: passes, show: (i) => `${data.passes[i]}` },
    (to) => ((passes = to), again()));
  slider(bars, "temperature", { min: 0, max: data.heats.length - 1, value: heat, show: (i) => digits(data.heats[i], 1) },
    (to) => ((heat = to), again()));
  toggle(bars, "surest first", true, (on) => ((order = on ? 0 : 1), again()));
  button(bars, "another", () => (draw++, again()));
  const walk = stepper(root, row(root), show);
  const page = row(root, "tight");
  const says = element(root, "p", { class: "says", "aria-live": "polite" });

  // The chance of each word at the blanks: [place, (V)] of each.
  function chances(ids, temperature) {
    const states = bert.run(ids).states.at(-1), mask = bert.vocab.indexOf("[MASK]");
    const never = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map((token) => bert.vocab.indexOf(token));
    return ids.flatMap((id, place) => {
      if (id !== mask) return [];
      const scores = bert.wordScores(bert.row(states, place)).scores.slice(0, bert.vocab.length);
      for (const one of never) scores[one] = -Infinity;
      return [[place, softmax(scores.map((score) => score / temperature))]];
    });
  }

  // As `unmask` of the package: each pass draws a word for every blank, and keeps those that are due.
  function write(start, count, temperature, confident, seed) {
    const dice = chance(seed), { ids, tokens } = bert.encode(start);
    const first = tokens.length - 1, mask = bert.vocab.indexOf("[MASK]");
    ids.splice(first, 0, ...Array(data.blanks).fill(mask));
    const when = Array(data.blanks).fill(0);
    for (let pass = 1; pass <= count; pass++) {
      const drawn = chances(ids, temperature).map(([place, shares]) => {
        let left = dice() * shares.reduce((a, b) => a + b), id = 0;
        while (id < shares.length - 1 && (left -= shares[id]) >= 0) id++;
        return { place, id, sure: confident ? shares[id] : dice() };
      });
      const due = drawn.length - Math.floor((data.blanks * (count - pass)) / count);
      for (const { place, id } of drawn.sort((a, b) => b.sure - a.sure).slice(0, due)) {
        ids[place] = id;
        when[place - first] = pass;
      }
    }
    return { before: tokens.slice(1, -1), words: ids.slice(first, -1).map((id) => bert.vocab[id]), when };
  }

  function again() {
    const [count, temperature] = [data.passes[passes], data.heats[heat]];
    const recorded = data.recorded[`${count} ${temperature} ${ORDERS[order]}`];
    if (bert) {
      const wrong = refused(bert, [begin.value], 40);
      if (wrong) return (page.replaceChildren(), (says.textContent = wrong));
      written = write(begin.value, count, temperature, order === 0, draw);
    } else {
      const [words, when] = recorded[draw % recorded.length];
      written = { before: data.before, words: words.split(" "), when };
    }
    walk(count);
  }

  function show(place) {
    page.replaceChildren();
    for (const word of written.before ?? []) cell(page, word, "bare");
    written.words.forEach((word, i) => {
      const pass = written.when[i];
      cell(page, pass > place ? "·" : word, pass > place ? "" : pass === place ? "orange" : "blue");
    });
    const open = written.when.filter((pass) => pass > place).length, now = written.when.filter((pass) => pass === place).length;
    const source = bert ? "" : " Recorded: run the cell in a notebook, and the page writes itself.";
    says.textContent = (place ? `Pass ${place}: ${now} word${now === 1 ? "" : "s"} at once` : "Blanks alone")
      + `, ${open} still open.${source}`;
  }

  again();
  return { chances, write };
}

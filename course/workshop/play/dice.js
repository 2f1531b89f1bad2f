// 80/10/10: dice decide which tokens are asked about, and what stands in their place.
// data: text, words (to draw random ones from), rate and shares (in %: [MASK], random, same), seed.

const SHORT = 2000; // throws of the long button
const GROUPS = ["[MASK]", "random", "same"];
const LOOKS = ["blue", "orange", "green"];

const tokensOf = (text) =>
  ["[CLS]", ...(text.toLowerCase().match(/[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu) ?? []), "[SEP]"];

// What becomes of a token: null (nobody asks), or 0, 1, 2 for [MASK], random, same.
function groupOf({ chance, group }, { rate, shares }) {
  if (100 * chance >= rate) return null;
  return 100 * group < shares[0] ? 0 : 100 * group < shares[0] + shares[1] ? 1 : 2;
}

// The three shares after the one at `place` has moved to `value`: the others make room, in proportion.
function balance(shares, place, value) {
  const [i, j] = [0, 1, 2].filter((one) => one !== place);
  const rest = 100 - value, others = shares[i] + shares[j];
  const next = [...shares];
  next[place] = value;
  next[i] = Math.round(others ? (rest * shares[i]) / others : rest / 2);
  next[j] = rest - next[i];
  return next;
}

function toy(root, data) {
  const set = { rate: data.rate, shares: [...data.shares] };
  let dice = chance(data.seed), tokens = [], thrown = [], counts;
  const top = row(root);
  const input = field(top, "your sentence", data.text, start, 40);
  const seed = field(top, "seed", data.seed, start, 4);
  const sliders = row(root);
  slider(sliders, "selected", { min: 0, max: 100, value: set.rate, show: (n) => `${n} %` },
    (rate) => { set.rate = rate; again(); });
  const moves = GROUPS.map((name, place) =>
    slider(sliders, name, { min: 0, max: 100, value: set.shares[place], show: (n) => `${n} %` },
      (value) => {
        set.shares = balance(set.shares, place, value);
        moves.forEach((move, i) => move(set.shares[i]));
        again();
      }));
  const bar = row(root, "tight");
  button(bar, "throw (t)", () => roll(1));
  button(bar, `throw ${SHORT.toLocaleString("en")} × (m)`, () => roll(SHORT));
  button(bar, "from the seed again", start);
  root.addEventListener("keydown", (event) => {
    if (event.target.type === "text" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "t") roll(1);
    if (event.key === "m") roll(SHORT);
  });
  const cards = row(root, "tight cards");
  cards.style.alignItems = "flex-start";
  const says = element(root, "p", { class: "says", "aria-live": "polite" });
  const table = element(root, "table");
  table.style.width = "100%"; // the bars take what is left of it

  function start() {
    const number = /^\d{1,9}$/.test(seed.value.trim());
    seed.setAttribute("aria-invalid", !number);
    if (!number) return (says.textContent = "A seed is a whole number, such as 7.");
    dice = chance(Number(seed.value));
    tokens = tokensOf(input.value);
    roll(1, true);
  }

  function throwOnce() {
    thrown = tokens.map((_, i) => i && i < tokens.length - 1 && // [CLS] and [SEP] are never selected
      { chance: dice(), group: dice(), word: data.words[Math.floor(dice() * data.words.length)] });
  }

  function count() {
    for (const one of thrown.filter(Boolean)) {
      const group = groupOf(one, set);
      counts.tokens++;
      if (group !== null) counts.groups[group]++;
    }
    counts.throws++;
  }

  function roll(times, anew = false) {
    if (anew) counts = { throws: 0, tokens: 0, groups: [0, 0, 0] };
    for (let i = 0; i < times; i++) {
      throwOnce();
      count();
    }
    show();
  }

  // other sliders, the same dice: the count begins with this throw
  function again() {
    counts = { throws: 0, tokens: 0, groups: [0, 0, 0] };
    count();
    show();
  }

  function show() {
    cards.replaceChildren();
    const asked = [];
    tokens.forEach((token, i) => {
      const card = element(cards, "span"); // without a class: Bootstrap, on the site, has a .card
      card.style.cssText = `display: inline-flex; flex-direction: column; align-items: center;
        min-height: 84px; max-width: 100%`;
      const group = thrown[i] ? groupOf(thrown[i], set) : null;
      if (group === null) cell(card, token);
      else {
        cell(card, [GROUPS[0], thrown[i].word, token][group], LOOKS[group]);
        asked.push(`“${short(token)}” (${["[MASK]", `“${thrown[i].word}”`, "the same"][group]})`);
      }
      if (!thrown[i]) return;
      element(card, "small", {}, group === null ? digits(thrown[i].chance) :
        `${digits(thrown[i].chance)} · ${digits(thrown[i].group)}`);
      if (group !== null) element(card, "small", {}, `${GROUPS[group]}${group < 2 ? `: ${short(token)}` : ""}`);
    });
    says.textContent = asked.length ? `To guess: ${asked.join(", ")}.`
      : "Nobody is selected this time. (In a batch, the token with the lowest die would be.)";
    counted();
  }

  // how often so far, beside what is expected: a bar with a mark
  function counted() {
    table.replaceChildren();
    const all = counts.groups.reduce((a, b) => a + b);
    const head = element(table, "tr");
    const times = `${counts.throws.toLocaleString("en")} throw${counts.throws > 1 ? "s" : ""}`;
    for (const name of [times, "counted", "frequency", "expected", "bar: frequency, mark: expected"])
      element(head, "th", { scope: "col" }, name);
    head.lastChild.style.cssText = "text-align: left; white-space: normal; width: 50%";
    const rows = [["selected of all", all, counts.tokens, set.rate, "pink"],
      ...GROUPS.map((name, i) => [`${name} of these`, counts.groups[i], all, set.shares[i], LOOKS[i]])];
    for (const [name, part, whole, expected, color] of rows) {
      const line = element(table, "tr");
      element(line, "td", {}, name);
      element(line, "td", {}, part.toLocaleString("en"));
      element(line, "td", {}, whole ? `${digits((100 * part) / whole, 1)} %` : "–");
      element(line, "td", {}, `${expected} %`);
      const place = element(element(line, "td"), "div");
      place.style.cssText = "position: relative; min-width: 60px; max-width: 300px; height: 22px; background: var(--faint)";
      const ink = element(place, "div");
      ink.style.cssText = `height: 22px; width: ${whole ? (100 * part) / whole : 0}%; background: var(--${color})`;
      const mark = element(place, "div");
      mark.style.cssText = `position: absolute; top: -3px; height: 28px; left: calc(${expected}% - 2px);
        width: 4px; background: currentColor`;
    }
  }

  start();
  return { balance };
}

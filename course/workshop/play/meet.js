// Do the two sides of a word meet in its state? BERT beside two one-way models, joined.
// data: text, at, left, right (places of tokens), new (a word). models: BERT, LTR, RTL.

const MOST = 24; // tokens
const WAYS = ["the left one changed", "the right one changed", "both changed", "beyond the sum"];

// The last states of a model for these ids; once computed, they are kept.
function lastStates(bert, ids) {
  const known = (bert.known ??= new Map()), key = ids.join();
  if (known.size > 500) known.clear();
  if (!known.has(key)) known.set(key, bert.run(ids).states.at(-1));
  return known.get(key);
}

// How far the state of token `at` moves, as shares of its length: each way, and what is left when
// the moves of each word alone are taken from the move of both.
function moves(models, ids, at, places, id) {
  const state = (...changed) => models.flatMap((bert) => {
    const some = ids.map((old, i) => (changed.includes(i) ? id : old));
    return [...bert.row(lastStates(bert, some), at)];
  });
  const before = state(), [left, right] = places.map((place) => state(place)), both = state(...places);
  const length = (vector) => Math.hypot(...vector) / Math.hypot(...before);
  const minus = (vector) => vector.map((x, i) => x - before[i]);
  const beyond = both.map((x, i) => x - left[i] - right[i] + before[i]);
  return [...[left, right, both].map((some) => length(minus(some))), length(beyond)];
}

function toy(root, data, [bert, ltr, rtl]) {
  const READERS = { "BERT": [bert], "left and right, joined": [ltr, rtl] };
  const picked = { at: data.at, left: data.left, right: data.right };
  const text = box(root, "text", data.text, read);
  const sentence = row(root, "tight");
  sentence.setAttribute("role", "group");
  sentence.setAttribute("aria-label", "whose state?");
  const chosen = row(root), into = field(row(root), "into", data.new, show, 14);
  const tables = Object.keys(READERS).map((name) => {
    element(root, "b", {}, name);
    return element(root, "div");
  });
  const says = element(root, "p", { class: "says", "aria-live": "polite" });
  let input;

  function read() {
    const wrong = refused(bert, [text.value], MOST);
    input = wrong ? null : bert.encode(text.value);
    if (!wrong && input.tokens.length < 5) input = null;
    for (const part of [sentence, chosen, ...tables]) part.hidden = !input;
    if (!input) return (says.textContent = wrong || "Three tokens at least: one is watched, one on each side changes.");
    const last = input.tokens.length - 2; // the end of the text
    picked.at = Math.min(Math.max(picked.at, 2), last - 1);
    sentence.replaceChildren();
    input.tokens.forEach((token, i) =>
      button(sentence, token, () => { picked.at = i; pick(); }, i < 2 || i >= last ? { disabled: "", "aria-disabled": true } : {}));
    pick();
  }

  // Offer the tokens on either side of the one whose state is watched.
  function pick() {
    [...sentence.children].forEach((node, i) => node.setAttribute("aria-pressed", i === picked.at));
    const last = input.tokens.length - 2;
    picked.left = Math.min(picked.left, picked.at - 1);
    picked.right = Math.min(Math.max(picked.right, picked.at + 1), last);
    chosen.replaceChildren();
    for (const [side, first, end] of [["left", 1, picked.at], ["right", picked.at + 1, last + 1]]) {
      const node = choice(chosen, `change, on the ${side},`, input.tokens.slice(first, end),
        (i) => { picked[side] = first + i; show(); });
      node.value = picked[side] - first;
    }
    show();
  }

  function show() {
    if (!input) return;
    const typed = bert.encode(into.value), places = [picked.left, picked.right];
    const one = typed.tokens.length === 3 && !input.ids.includes(typed.ids[1]);
    into.setAttribute("aria-invalid", !one);
    tables.forEach((part) => { part.hidden = !one; });
    const unread = bert.cannotRead(`${text.value} ${into.value}`);
    if (!one) return (says.textContent = `${unread}Change them into one word piece that is not in the text.`);
    const found = Object.values(READERS).map((models) => moves(models, input.ids, picked.at, places, typed.ids[1]));
    found.forEach((shares, i) => shareBars(tables[i], shares.map((share, way) =>
      [WAYS[way], share, digits(share, 3), way === 3 ? "orange" : "blue"])));
    const meet = found.map((shares) => shares[3] > 1e-4);
    says.textContent = `${unread}At “${input.tokens[picked.at]}” the two sides ` + (meet[0] && !meet[1]
      ? "meet in BERT, and not in the pair." : meet[0] ? "meet in both." : "do not meet.");
  }

  read();
  return { moves: (names, words, at, places, word) => moves(names.map((name) => ({ bert, ltr, rtl })[name]),
    bert.encode(words).ids, at, places, bert.encode(word).ids[1]) };
}

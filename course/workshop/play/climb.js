// A word's vector climbs the layers: to which of two senses is it nearer, in your sentence?
// data: word, text, senses ([name, sentences] of each).

const MOST = 32; // tokens
const COLORS = ["blue", "orange"];

function toy(root, data, [bert]) {
  const kept = new Map(); // the vectors of a word in a sentence, once computed
  const { layers } = bert.config, floors = Array.from({ length: layers + 1 }, (_, floor) => floor);
  const word = field(row(root), "word", data.word, show, 16);
  const own = box(root, "your sentence", data.text, show);
  const lists = row(root, "beside");
  const senses = data.senses.map(([name, sentences]) => box(element(lists, "div", { class: "share" }),
    `${name}, a sentence a line`, sentences.join("\n"), show, sentences.length > 1 ? 6 : 2));
  const says = element(root, "p", { class: "says", "aria-live": "polite" });
  const board = element(root, "div", { class: "beside" });
  const climb = chart(element(board, "div", { class: "share" }), "up: input (0) and layers; across: cosine",
    [400, 260], { to: 1 }, { from: -0.25, to: layers + 0.25, marks: floors });
  const table = element(board, "table");

  // The word's vector in a sentence, of length 1, at the input and after each layer; or null.
  function vectors(sentence, piece) {
    const name = `${piece} ${sentence}`;
    if (!kept.has(name)) {
      const { tokens, ids } = bert.encode(sentence), place = tokens.indexOf(piece);
      kept.set(name, place < 0 || tokens.length > MOST ? null : bert.run(ids).states.map((state) => {
        const vector = bert.row(state, place), long = Math.hypot(...vector);
        return vector.map((x) => x / long);
      }));
    }
    return kept.get(name);
  }

  // The cosine of your word, floor by floor, with the mean of all other sentences of a list.
  function near(mine, sentences, piece) {
    const others = sentences.map((one) => vectors(one, piece)).filter(Boolean);
    return others.length ? floors.map((floor) => {
      const mean = mine[floor].map((_, i) => others.reduce((sum, one) => sum + one[floor][i], 0));
      return mine[floor].reduce((sum, x, i) => sum + x * mean[i], 0) / Math.hypot(...mean);
    }) : null;
  }

  function show() {
    const typed = bert.encode(word.value).tokens, piece = typed[1];
    const one = typed.length === 3 && piece !== "[UNK]", mine = one ? vectors(own.value, piece) : null;
    const lines = senses.map(({ value }) => value.split("\n").filter((one) => one.trim() && one !== own.value));
    const found = mine && lines.map((some) => near(mine, some, piece));
    board.hidden = !found?.every(Boolean);
    word.setAttribute("aria-invalid", !one);
    if (!one) return (says.textContent = `${bert.cannotRead(word.value)}Take a word that is one word piece.`);
    const count = bert.encode(own.value).tokens.length, unread = bert.cannotRead(own.value);
    if (!mine) return (says.textContent = count > MOST
      ? `Your sentence has ${count} tokens: ${MOST} at most fit here. Take a shorter one.`
      : `Your sentence needs the word “${piece}”. ${unread}`);
    if (board.hidden) return (says.textContent =
      `Each list needs a sentence with “${piece}”, of ${MOST} tokens at most, that is not yours.`);
    const least = Math.floor(4 * Math.min(...found.flat(), 0.9)) / 4;
    climb.clear({ xs: { from: least, marks: [least, (least + 1) / 2, 1] } });
    found.forEach((cosines, i) => {
      const points = cosines.map((x, floor) => [x, floor]);
      climb.line(points, COLORS[i]);
      for (const [x, floor] of points) draw(climb.lines, i ? "rect" : "circle", { fill: `var(--${COLORS[i]})`,
        ...(i ? { x: climb.x(x) - 7, y: climb.y(floor) - 7, width: 14, height: 14 } : { cx: climb.x(x), cy: climb.y(floor), r: 8 }) });
    });
    table.replaceChildren();
    const head = element(table, "tr");
    element(head, "th", { scope: "col" }, "layer");
    data.senses.forEach(([name], i) =>
      cell(element(head, "th", { scope: "col" }), `${"●■"[i]} ${name}`, COLORS[i]).style.font = "inherit");
    for (const floor of [...floors].reverse()) {
      const line = element(table, "tr");
      element(line, "td", {}, floor ? `${floor}` : "input");
      for (const cosines of found) element(line, "td", {}, digits(cosines[floor], 4));
    }
    const nearer = (floor) => {
      const more = found[1][floor] - found[0][floor];
      return Math.abs(more) < 5e-5 ? "as near to one as to the other" : `nearer to ${data.senses[+(more > 0)][0]}`;
    };
    says.textContent = `${unread}At the input “${piece}” is ${nearer(0)}; after layer ${layers} it is ${nearer(layers)}.`;
  }

  show();
  return { near: (sentence, sentences, piece) => near(vectors(sentence, piece), sentences, piece) };
}

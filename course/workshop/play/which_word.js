// Of two words, which stood in the blank? A reader of both sides beside one of each side alone.
// data: text (with a blank, ___), words (two). models: BERT, LTR, RTL.

const MOST = 40; // tokens
const READERS = ["both sides", "left alone", "right alone"];

function toy(root, data, models) {
  const [bert] = models;
  const text = box(root, "text", data.text, show);
  const line = row(root);
  const fields = ["one", "other"].map((name, i) => field(line, `${name} word`, data.words[i], show, 14));
  const rows = element(root, "div");
  const says = element(root, "p", { class: "says", "aria-live": "polite" });

  // The share that each reader gives the other word, of both.
  function shares(sentence, ids) {
    return models.map((model) => {
      const input = model.encodeBlanks(sentence);
      const { scores } = model.wordScores(model.row(model.run(input.ids).states.at(-1), input.place));
      return 1 / (1 + Math.exp(scores[ids[0]] - scores[ids[1]]));
    });
  }

  function show() {
    const typed = fields.map(({ value }) => bert.encode(value));
    const whole = typed.map(({ ids }) => ids.length === 3 && ids[1] !== bert.encode("[UNK]").ids[1]);
    fields.forEach((node, i) => node.setAttribute("aria-invalid", !whole[i]));
    const blanks = bert.encodeBlanks(text.value).tokens.filter((token) => token === "[MASK]").length;
    const wrong = refused(bert, [text.value], MOST)
      || (blanks === 1 ? "" : "Write one blank into the text: ___.")
      || (whole.every(Boolean) ? "" : "Two words, please, each of one word piece.");
    rows.hidden = Boolean(wrong);
    if (wrong) return (says.textContent = wrong);
    const found = shares(text.value, typed.map(({ ids }) => ids[1]));
    const words = typed.map(({ tokens }) => tokens[1]);
    const said = found.map((share) => [words[share > 0.5 ? 1 : 0], Math.max(share, 1 - share)]);
    shareBars(rows, said.map(([word, share], i) =>
      [`${READERS[i]}: ${word}`, share, digits(share), i ? "orange" : "blue"]));
    const same = said.every(([word]) => word === said[0][0]);
    says.textContent = bert.cannotRead(text.value) + (same
      ? `All three choose “${said[0][0]}”. Who is sure? A coin says 0.50.`
      : `They disagree: both sides choose “${said[0][0]}”.`);
  }

  show();
  return { shares: (sentence, words) => shares(sentence, words.map((word) => bert.encode(word).ids[1])) };
}

// Your own text, and the answer of a model fine-tuned a moment ago, by its kind of head.
// data: kind, labels, texts (as many boxes), most (tokens).

const LONGEST = 30; // tokens of a marked answer, as in bertedu/finetuning/question_answering.py
const NAMES = { span: ["question", "text"], choice: ["beginning"] };
const COLORS = ["blue", "orange", "green"];

// Words and marks, as `split_words` of bertedu/finetuning/tagging.py cuts them.
const WORD = String.raw`[\p{L}\p{M}\p{N}\u00ad\u200c\u200d_]+`;
const UNIT = new RegExp(String.raw`${WORD}(?:[-'’]${WORD})*|[^\p{L}\p{N}_\s]`, "gu");
const split = (text) => text.match(UNIT) ?? [];

// What each kind of head makes of the texts: { shares }, { value }, { tags } or { starts, ends … }.
const ANSWER = {
  classification: (bert, texts) => ({ shares: [...softmax(wholeScores(bert, texts))] }),
  regression: (bert, texts) => ({ value: wholeScores(bert, texts)[0] }),
  choice: (bert, [text, ...endings]) => ({
    shares: [...softmax(Float32Array.from(endings, (ending) => wholeScores(bert, [text, ending])[0]))],
  }),
  tagging: (bert, [text], labels) => {
    const words = split(text), ids = [bert.encode("").ids[0]], firsts = [];
    for (const word of words) {
      const cut = bert.encode(word).ids.slice(1, -1);
      firsts.push(cut.length ? ids.length : null);
      ids.push(...cut);
    }
    ids.push(bert.encode("").ids[1]);
    const scores = tokenScores(bert, ids), count = labels.length;
    const best = (place) => {
      const some = [...scores.subarray(place * count, (place + 1) * count)];
      return labels[some.indexOf(Math.max(...some))];
    };
    return { words, tags: firsts.map((place) => (place === null ? labels[0] : best(place))) };
  },
  span: (bert, [question, text]) => {
    const { tokens, ids, segments } = bert.encode(question, text);
    const scores = tokenScores(bert, ids, segments);
    const [start, end] = [0, 1].map((side) => scores.filter((_, i) => i % 2 === side));
    const first = segments.indexOf(1), last = tokens.length - 1; // without its [SEP]
    let best = { score: -Infinity };
    for (let i = first; i < last; i++)
      for (let j = i; j < Math.min(last, i + LONGEST); j++)
        if (start[i] + end[j] > best.score) best = { score: start[i] + end[j], begin: i, end: j };
    return { tokens, first, last, starts: [...softmax(start)], ends: [...softmax(end)], marked: best };
  },
};

function wholeScores(bert, texts) {
  const { ids, segments } = bert.encode(...texts);
  return bert.map(bert.pooled(bert.run(ids, segments).states.at(-1)), "head.classifier");
}
const tokenScores = (bert, ids, segments) =>
  bert.map(bert.run(ids, segments).states.at(-1), "head.classifier");

function toy(root, data, [bert]) {
  const most = Math.min(data.most, bert.config.positions), { kind, labels } = data;
  const names = NAMES[kind] ?? (data.texts.length > 1 ? ["text A", "text B"] : ["text"]);
  const boxes = data.texts.map((text, i) =>
    box(root, names[i] ?? `ending ${i}`, text, show, text.length > 90 ? 4 : 1));
  const board = element(root, "div");
  const says = element(root, "p", { class: "says", "aria-live": "polite" });
  const whole = (share) => `${Math.round(100 * share)} %`;
  const answer = (texts) => ANSWER[kind](bert, texts, labels);

  const SHOW = {
    shares({ shares }) {
      const named = shares.map((share, i) => [labels[i] ?? `ending ${i + 1}`, share, whole(share)]);
      if (kind !== "choice") named.sort((a, b) => b[1] - a[1]);
      shareBars(board, named);
      const best = named.reduce((a, b) => (b[1] > a[1] ? b : a));
      return `${best[0]}: ${best[2]}.`;
    },
    value: ({ value }) => `${digits(value)}.`,
    tags({ words, tags }) {
      board.className = "row tight";
      const types = [...new Set(labels.map((label) => label.slice(2)).filter(Boolean))];
      words.forEach((word, i) => {
        const named = tags[i] !== labels[0];
        const color = COLORS[types.indexOf(tags[i].slice(2)) % COLORS.length];
        const node = cell(board, word, `tag ${named ? color : "bare"}`);
        node.prepend(element(node, "small", {}, named ? tags[i] : "\u00a0"));
      });
      const count = tags.filter((tag) => tag !== labels[0]).length;
      return `${count} of ${words.length} words are tagged.`;
    },
    marked({ tokens, first, last, starts, ends, marked }) {
      board.className = "row tight spans";
      const shown = (token, i, inside) => {
        const side = (share, color) =>
          `color-mix(in srgb, var(--${color}) ${Math.round(100 * share)}%, transparent)`;
        const label = `${token}: start ${whole(starts[i])}, end ${whole(ends[i])}`;
        const node = cell(board, token, inside ? "marked" : "bare");
        Object.assign(node.style, { borderTop: `5px solid ${side(starts[i], "blue")}`,
          borderBottom: `5px solid ${side(ends[i], "orange")}` });
        node.title = label;
      };
      shown("[CLS]", 0, false);
      for (let i = first; i < last; i++) shown(tokens[i], i, i >= marked.begin && i <= marked.end);
      const text = tokens.slice(marked.begin, marked.end + 1).join(" ").replaceAll(" ##", "").replace(/^##/, "");
      return `Marked: “${text}”. It starts there with ${whole(starts[marked.begin])} ` +
        `(blue, above), and ends there with ${whole(ends[marked.end])} (orange, below).`;
    },
  };

  function show() {
    const texts = boxes.map(({ value }) => value);
    const rows = kind === "choice" ? texts.slice(1).map((ending) => [texts[0], ending]) : [texts];
    const wrong = rows.map((some) => refused(bert, some, most)).find(Boolean);
    board.hidden = Boolean(wrong);
    if (wrong) return (says.textContent = wrong);
    const found = answer(texts);
    board.replaceChildren();
    says.textContent = bert.cannotRead(texts.join(" ")) + SHOW[Object.keys(SHOW).find((key) => key in found)](found);
  }

  show();
  return { answer };
}

// Longest match first: the whole rest of the word is looked up, then one letter less, and so on.
// data: vocabulary (pieces, a space between two), text.

const CHINESE =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/u;
const DROPPED = /[\p{Cc}\p{Cf}\p{Co}\ufffd]/u;
const MARK = /[!-/:-@[-`{-~]|\p{P}/u;

// Words in small letters without accents, each a list of characters; a mark is a word of its own.
function split(text) {
  const words = [[]];
  for (const original of text) {
    if (DROPPED.test(original) && !/[\t\n\r]/.test(original)) continue;
    const alone = CHINESE.test(original);
    if (alone) words.push([]);
    for (const c of original.normalize("NFD").replace(/\p{Mn}/gu, "").toLowerCase()) {
      if (/\s/.test(c)) words.push([]);
      else if (MARK.test(c)) words.push([c], []);
      else words.at(-1).push(c);
    }
    if (alone) words.push([]);
  }
  return words.filter((word) => word.length);
}

// Every question asked of the vocabulary, in order, and the pieces that come out.
function match(word, known) {
  const asked = [], pieces = [];
  if (word.length > 100) return { asked, pieces: ["[UNK]"] };
  for (let start = 0, end; start < word.length; start = end) {
    for (end = word.length; end > start; end--) {
      const piece = (start ? "##" : "") + word.slice(start, end).join("");
      asked.push({ start, end, piece, hit: known.has(piece) });
      if (known.has(piece)) break;
    }
    if (end === start) return { asked, pieces: ["[UNK]"] };
    pieces.push(asked.at(-1).piece);
  }
  return { asked, pieces };
}

function toy(root, { vocabulary, text }) {
  const known = new Set(vocabulary.split(" "));
  const size = known.size.toLocaleString("en");
  let words = [], moments = []; // a moment: which word, and how many questions it has been asked
  const top = row(root);
  const input = field(top, "your word", text, read);
  const walk = stepper(root, top, show);
  const letters = row(root, "tight large letters");
  const tried = element(root, "div", { class: "tried" });
  const result = row(root, "tight pieces");
  const says = element(root, "p", { class: "says", "aria-live": "polite" });

  function read() {
    words = split(input.value).map((word) => ({ word, ...match(word, known) }));
    moments = [[0, 0]];
    words.forEach(({ asked }, w) => {
      asked.forEach((_, i) => moments.push([w, i + 1]));
      if (!asked.length) moments.push([w, 0]);
    });
    walk(moments.length - 1);
  }

  function show(place) {
    for (const part of [letters, tried, result]) part.replaceChildren();
    if (!words.length) return (says.textContent = "Type a word.");
    const [w, count] = moments[place];
    const { word, asked, pieces } = words[w];
    const now = asked[count - 1];
    const over = place > 0 && count === asked.length;
    const unknown = over && pieces[0] === "[UNK]";
    const at = !now || unknown ? 0 : now.start; // where the question begins
    word.slice(0, 60).forEach((letter, i) => {
      const inside = now && i >= now.start && i < now.end;
      const look = inside ? (now.hit ? "green" : "orange") : now && i < at ? "blue" : "";
      cell(letters, letter, look);
    });
    // one row for each piece that was looked for
    let line;
    asked.slice(0, count).forEach(({ start, piece, hit }, i) => {
      if (!i || asked[i - 1].start !== start) line = row(tried, "tight");
      cell(line, `${piece} ${hit ? "✓" : "✗"}`, hit ? "green" : i === count - 1 ? "orange" : "");
    });
    element(result, "b", {}, "pieces:");
    const found = asked.slice(0, count).filter(({ hit }) => hit).map(({ piece }) => piece);
    const done = [...words.slice(0, w).flatMap((one) => one.pieces), ...(over ? pieces : found)];
    done.forEach((piece) => cell(result, piece, piece === "[UNK]" ? "orange" : "blue"));
    if (!done.length) element(result, "span", {}, "none yet");
    says.textContent = sentence(word, now, over, unknown, place);
  }

  function sentence(word, now, over, unknown, place) {
    const more = words.length > 1 ? ` Your ${words.length} words are cut one after the other.` : "";
    if (!place) return `Which of ${size} pieces begins “${short(word.join(""))}”? Step: the whole word is asked first.${more}`;
    if (!now) return `${word.length} letters: a word of more than 100 is [UNK], and nothing is asked.`;
    const asked = `Is “${now.piece}” in the vocabulary?`;
    if (unknown) return `${asked} No, and no shorter piece is left. The whole word is [UNK].`;
    if (!now.hit) return `${asked} No. One letter less.`;
    if (!over) return `${asked} Yes: take it. What remains is “##${word.slice(now.end).join("")}”.`;
    return `${asked} Yes: take it. Nothing remains; ${place} question${place > 1 ? "s" : ""} in all.`;
  }

  read();
  return { pieces: (text) => split(text).flatMap((word) => match(word, known).pieces) };
}

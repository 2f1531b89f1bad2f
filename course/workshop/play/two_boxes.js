// Does B follow A? P(IsNext) of a model trained on next sentence prediction, in both orders.
// data: texts (A and B).

const MOST = 128; // tokens: the positions of pre-training

function toy(root, data, [bert]) {
  const boxes = ["A", "B"].map((name, i) => box(root, name, data.texts[i], show, 2));
  button(row(root), "swap A and B", () => {
    [boxes[0].value, boxes[1].value] = [boxes[1].value, boxes[0].value];
    show();
  });
  element(root, "b", {}, "P(IsNext)");
  const rows = element(root, "div");
  const says = element(root, "p", { class: "says", "aria-live": "polite" });

  function chance(a, b) {
    const { ids, segments } = bert.encode(a, b);
    return bert.isNext(bert.run(ids, segments).states.at(-1));
  }

  function show() {
    const [a, b] = boxes.map(({ value }) => value);
    const wrong = refused(bert, [a, b], MOST);
    rows.hidden = Boolean(wrong);
    if (wrong) return (says.textContent = wrong);
    const [forth, back] = [chance(a, b), chance(b, a)];
    shareBars(rows, [["A, then B", forth, digits(forth)], ["B, then A", back, digits(back), "orange"]]);
    const word = (share) => (share > 0.5 ? "IsNext" : "NotNext");
    says.textContent = bert.cannotRead(`${a} ${b}`) + (word(forth) === word(back)
      ? `${word(forth)}, in whichever order.`
      : `${word(forth)} as they stand, ${word(back)} when swapped.`);
  }

  show();
  return { chance };
}

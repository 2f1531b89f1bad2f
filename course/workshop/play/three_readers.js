// Three models read your sentence: the attention of each, side by side, in the view of
// attention_view.js. data: text, word (held while the sentence has it), names, and for each model
// the layer and head that are shown at first, counted from 1.

const MOST = 24; // tokens

function toy(root, data, berts) {
  const typed = box(root, "Sentence", data.text, show);
  const says = element(root, "p", { "aria-live": "polite" });
  const shown = element(root, "div");

  // What is shown of each model: layer and head as they stand now, so that typing moves nothing.
  function views(tokens, ids) {
    const now = shown.attentionPanels?.map(({ state }) => [state.layer, state.head]);
    return berts.map((bert, i) => {
      const layers = bert.run(ids).layers;
      const bytes = layers.map(({ weights }) =>
        Array.from(weights, (share) => String.fromCharCode(Math.round(255 * share))).join(""));
      return {
        name: data.names[i], direction: bert.config.direction, tokens, heads: bert.config.heads,
        weights: btoa(bytes.join("")), layers: layers.map((_, layer) => layer + 1),
        start: now?.[i] ?? data.starts[i].map((number) => number - 1),
      };
    });
  }

  function show() {
    says.textContent = refused(berts[0], [typed.value], MOST);
    shown.hidden = Boolean(says.textContent);
    if (shown.hidden) return;
    says.textContent = berts[0].cannotRead(typed.value);
    const { tokens, ids } = berts[0].encode(typed.value);
    const held = shown.attentionPanels?.[0], old = held?.state.side === "queries";
    const query = tokens.indexOf(old ? held.tokens[held.state.token] : data.word);
    attentionView(shown, { views: views(tokens, ids), query: query < 0 ? null : query });
  }

  show();
  return { shown };
}

// Puts Korean words into the toys, the machine and the views of a page: into each text, label or
// hint that the table has, when it is written, but not into tokens, drawings and what is typed.
{
  const split = (english) => english.split(/\{\d?\}/);
  const words = WORDS.sort((a, b) => split(b[0]).join("").length - split(a[0]).join("").length);
  const whole = new Map(words);
  const sign = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const patterns = words.filter(([english]) => split(english).length > 1)
    .map(([english, korean]) => [new RegExp(`^${split(english).map(sign).join("([^]+?)")}$`), korean]);
  const LABELS = ["aria-label", "aria-valuetext", "placeholder", "title"];
  const TOKENS = ".cell:not([style*=inherit]), .token, .mono, textarea, style, script";

  // 을(를) and the like, after the sound that a word ends with
  const CLOSED = /[013678LMNRlmn]$|[lmn]e$|ng$|(?:^|[^aeiou])[aeiou][pt]$|[aou]ck$/;
  const particles = (text) => text.replace(/([가-힣]|[0-9]|[A-Za-z]+)(["'”’)\]]*)(을\(를\)|이\(가\)|은\(는\)|과\(와\))/g,
    (_, last, between, both) => {
      const code = last.charCodeAt(last.length - 1) - 0xac00;
      return last + between + both[(code >= 0 ? code % 28 > 0 : CLOSED.test(last)) ? 0 : 2];
    });
  const translated = (text) => {
    if (!/[a-z]/i.test(text)) return text;
    if (whole.has(text)) return whole.get(text);
    for (const [pattern, korean] of patterns) {
      const parts = text.match(pattern)?.slice(1).map(translated);
      let next = 0;
      if (parts) return particles(korean.replace(/\{(\d?)\}/g, (_, at) => parts[at ? at - 1 : next++]));
    }
    const sentences = text.split(/(?<=[.:?!]) (?=[A-Z“])/);
    return sentences.length > 1 ? sentences.map(translated).join(" ") : text;
  };
  const put = (text, write) => {
    const trimmed = text.trim(), korean = translated(trimmed);
    if (trimmed && korean !== trimmed) write(text.replace(trimmed, () => korean));
  };
  const label = (node) => LABELS.filter((name) => node.hasAttribute(name))
    .forEach((name) => put(node.getAttribute(name), (text) => node.setAttribute(name, text)));
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) {
      if (!node.parentElement?.closest(TOKENS)) put(node.data, (text) => { node.data = text; });
    } else if (node.nodeType === Node.ELEMENT_NODE) {
      label(node);
      node.childNodes.forEach(walk);
    }
  };
  for (const root of document.querySelectorAll("[class^=bertedu-]:not(.bertedu-drawing)")) {
    if (root.korean) continue;
    root.korean = new MutationObserver((changes) => changes.forEach(({ type, target, addedNodes }) =>
      type === "childList" ? addedNodes.forEach(walk) : type === "attributes" ? label(target) : walk(target)));
    root.korean.observe(root, { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: LABELS });
    walk(root);
  }
}

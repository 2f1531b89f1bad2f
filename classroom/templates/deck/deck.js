// Cut what is taller than a slide into slides below it, then start reveal.js.
(function () {
const WIDE = 1184, HIGH = 640; // room on a slide
const LEAST = 0.72; // what does not fit is shrunk to this share of its size, and no further
const PICTURE = ".jp-RenderedHTML > img";
const height = (element) => element.getBoundingClientRect().height;

// Make a unit fit: wide lines smaller, pictures as large as their caption leaves room for.
function fit(unit, room) {
  unit.style.zoom = 1;
  for (const pre of unit.querySelectorAll(".jp-RenderedText pre")) {
    pre.style.fontSize = "";
    const share = pre.clientWidth / pre.scrollWidth;
    if (share < 1) pre.style.fontSize = 21 * Math.max(share * 0.99, LEAST) + "px";
  }
  for (const image of unit.querySelectorAll(PICTURE)) {
    image.style.width = Math.min(WIDE, 1.7 * image.naturalWidth) + "px";
    const high = Math.max(240, height(image) - Math.max(0, height(unit) - room));
    image.style.width = high / image.naturalHeight * image.naturalWidth + "px";
  }
  const share = Math.min(room / height(unit), WIDE / unit.scrollWidth);
  if (share < 1 && !unit.querySelector(".bertedu-machine")) unit.style.zoom = Math.max(share, LEAST);
}

function cut(section) {
  const title = section.parentNode.querySelector(".jp-RenderedMarkdown :is(h1, h2, h3)");
  let page = section, left = HIGH, above = null;
  const rest = [...section.children];
  rest.forEach((unit) => fit(unit, HIGH));
  rest.forEach((unit, at) => {
    const heading = above && above === page.lastElementChild && above.querySelector(".only-heading");
    if (above && (heading || (unit.querySelector(PICTURE) && left > 420))) fit(unit, left);
    // a last line or two is no slide of its own: make everything a little smaller
    const more = rest.slice(at).reduce((sum, one) => sum + height(one), 0);
    if (above && left > 0 && more > left && more < left + 110) {
      const share = HIGH / (HIGH - left + more);
      for (const one of [...page.querySelectorAll(".unit"), ...rest.slice(at)])
        one.style.zoom = Math.max(LEAST, one.style.zoom * share);
      left = more * share + 1;
    }
    if (above && !heading && height(unit) > left) {
      page.after(page = document.createElement("section"));
      const where = page.appendChild(document.createElement("p"));
      where.className = "where";
      if (title) where.append(...title.cloneNode(true).childNodes);
      left = HIGH - 40;
      above = null;
    }
    if (!above) unit.classList.remove("fragment");
    if (page !== section) page.append(unit);
    if (!above) fit(unit, left);
    left -= height(unit);
    above = unit;
  });
}

async function start() {
  await Promise.all([...document.images].map((image) => image.decode().catch(() => 0)));
  document.querySelectorAll(".slides section section").forEach(cut);
  document.body.classList.remove("cutting");
  await Reveal.initialize({
    width: 1280, height: 720, margin: 0, center: false, hash: true, transition: "none",
    backgroundTransition: "none", slideNumber: "c/t", plugins: [RevealNotes],
  });
  document.body.classList.add("ready");
}

if (window.MathJax) MathJax.Hub.Register.StartupHook("End", start);
else addEventListener("load", start);
})();

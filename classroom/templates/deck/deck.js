// Cut what is taller than a slide into slides below it, then start reveal.js.
(function () {
const WIDE = 1184, HIGH = 640, TYPE = 21; // room on a slide; size of code
const LEAST = 0.72; // what does not fit is shrunk to this share of its size, and no further
const PICTURE = ".jp-RenderedHTML > img, .bertedu-bertviz img";
const TITLE = ".jp-RenderedMarkdown :is(h1, h2, h3)";
const height = (element) => element.getBoundingClientRect().height;

function scale(unit, share) {
  unit.style.zoom = share;
  unit.style.width = WIDE / share + "px";
}

// Make a unit fit: wide lines smaller, pictures as large as their caption leaves room for, what is
// made for a page by its own script (a toy) larger or smaller as a whole.
function fit(unit, room) {
  scale(unit, 1);
  for (const pre of unit.querySelectorAll(".jp-RenderedText pre")) {
    pre.style = "";
    const share = 0.99 * pre.clientWidth / pre.scrollWidth;
    if (share < 0.98) pre.style.fontSize = TYPE * Math.max(share, LEAST) + "px";
    if (share < LEAST) pre.style.whiteSpace = "pre-wrap";
  }
  for (const image of unit.querySelectorAll(PICTURE)) {
    image.style.width = Math.min(WIDE, 1.7 * image.naturalWidth) + "px";
    const high = Math.max(240, height(image) - Math.max(0, height(unit) - room));
    image.style.width = high / image.naturalHeight * image.naturalWidth + "px";
  }
  const toy = unit.querySelector(".bertedu-play, .bertedu-attention");
  const wide = toy ? toy.getBoundingClientRect().width : unit.scrollWidth;
  const least = toy || unit.querySelector(".bertedu-drawing") ? 0.6 : LEAST;
  const share = Math.min(room / height(unit), WIDE / wide, toy ? 1.5 : 1);
  if (!unit.querySelector(".bertedu-machine")) scale(unit, Math.max(share, least));
}

function cut(section) {
  const title = section.querySelector(TITLE) || section.parentNode.querySelector(TITLE);
  const units = [...section.children];
  let page = section, left = HIGH, above = null, shrunk = false;
  units.forEach((unit) => fit(unit, HIGH));
  units.forEach((unit, at) => {
    const heading = above && above === page.lastElementChild && above.querySelector(".only-heading");
    if (above && (heading || (unit.querySelector(`${PICTURE}, .bertedu-drawing`) && left > 420))) fit(unit, left);
    // a last line or two is no slide of its own: make everything a little smaller, once
    const rest = units.slice(at), more = rest.reduce((sum, one) => sum + height(one), 0);
    const all = [...page.querySelectorAll(":scope > .unit"), ...rest];
    if (above && !shrunk && more > left && more < left + 90 && !all.some((one) => one.style.zoom < 1)) {
      all.forEach((one) => scale(one, one.style.zoom * HIGH / (HIGH - left + more)));
      left = HIGH;
      all.slice(0, -rest.length).forEach((one) => { left -= height(one); });
      shrunk = true;
    }
    if (above && !heading && height(unit) > left + 1) {
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
    backgroundTransition: "none", slideNumber: "c/t", plugins: [RevealNotes, RevealZoom],
  });
  document.body.classList.add("ready");
}

if (window.MathJax) MathJax.Hub.Register.StartupHook("End", start);
else addEventListener("load", start);
})();

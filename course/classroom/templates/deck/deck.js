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
    const share = 0.995 * pre.clientWidth / pre.scrollWidth;
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
  let page = section, left = HIGH, shown = [], shrunk = false;
  units.forEach((unit) => fit(unit, HIGH));
  units.forEach((unit, at) => {
    const heading = page === section && shown.length === 1 && shown[0].querySelector(".only-heading");
    const bends = left > (unit.querySelector(".bertedu-drawing") ? 260 : 480)
      && unit.querySelector(`${PICTURE}, .bertedu-drawing`);
    if (heading || (shown.length && bends)) fit(unit, left);
    // a last line or two is no slide of its own: make everything a little smaller, once
    const rest = units.slice(at), more = rest.reduce((sum, one) => sum + height(one), 0);
    const small = [...shown, ...rest].some((one) => one.querySelector("pre[style*=font-size]"));
    if (shown.length && !shrunk && !small && more > left && more < left + 90) {
      const all = [...shown, ...rest], total = () => all.reduce((sum, one) => sum + height(one), 0);
      const space = left + total() - more;
      all.forEach((one) => one.classList.add("tight")); // first, lines closer together
      const share = Math.min(1, space / total() - 0.005);
      for (const one of all) scale(one, one.style.zoom * share);
      left = shown.reduce((sum, one) => sum - height(one), HIGH);
      shrunk = true;
    }
    if (shown.length && !heading && height(unit) > left + 1) {
      page.after(page = document.createElement("section"));
      const where = page.appendChild(document.createElement("p"));
      where.className = "where";
      if (title) where.append(...title.cloneNode(true).childNodes);
      left = HIGH - 40;
      shown = [];
    }
    if (!shown.length) {
      unit.classList.remove("fragment");
      fit(unit, left);
    }
    if (page !== section) page.append(unit);
    left -= height(unit);
    shown.push(unit);
  });
}

// Notes in a window of their own. (The plugin of reveal.js will not talk to a page from a file.)
let notes = null;
function openNotes() {
  notes = open("", "notes", "width=900,height=700");
  notes.document.body.innerHTML = "<p id=clock></p><h1 id=now></h1><div id=all></div><p id=next></p>";
  notes.document.title = `Notes: ${document.title}`;
  notes.document.body.style = "font: 22px/1.4 sans-serif; margin: 24px";
  notes.onkeydown = ({key}) => {
    if (["ArrowRight", "ArrowDown", "PageDown", " ", "n"].includes(key)) Reveal.next();
    if (["ArrowLeft", "ArrowUp", "PageUp", "p"].includes(key)) Reveal.prev();
  };
  const begin = Date.now(), clock = notes.document.getElementById("clock");
  notes.setInterval(() => {
    const minutes = Math.floor((Date.now() - begin) / 60000);
    clock.textContent = `${new Date().toTimeString().slice(0, 5)} · ${minutes} minutes`;
  }, 1000);
  tell();
}

function tell() {
  if (!notes || notes.closed) return;
  const at = (id) => notes.document.getElementById(id), slides = Reveal.getSlides();
  const slide = Reveal.getCurrentSlide(), next = slides[slides.indexOf(slide) + 1];
  const name = (one) => (one?.querySelector(`.where, ${TITLE}`)?.textContent || "").replace("¶", "");
  at("now").textContent = name(slide);
  at("next").textContent = next ? `Next: ${name(next) || next.textContent.trim().slice(0, 60)}` : "The end";
  at("all").replaceChildren();
  for (const aside of slide.querySelectorAll("aside.notes")) {
    const told = at("all").appendChild(notes.document.createElement("div"));
    told.innerHTML = aside.innerHTML;
    if (aside.closest(".fragment:not(.visible)")) told.style.color = "#888"; // not on the slide yet
  }
}

async function start() {
  await Promise.all([...document.images].map((image) => image.decode().catch(() => 0)));
  document.querySelectorAll(".slides section section").forEach(cut);
  document.body.classList.remove("cutting");
  await Reveal.initialize({
    width: 1280, height: 720, margin: 0, center: false, hash: true, transition: "none",
    backgroundTransition: "none", slideNumber: "c/t", plugins: [RevealZoom],
  });
  Reveal.addKeyBinding({keyCode: 83, key: "S", description: "Notes"}, openNotes);
  for (const event of ["slidechanged", "fragmentshown", "fragmenthidden"]) Reveal.on(event, tell);
  document.body.classList.add("ready");
}

if (window.MathJax) MathJax.Hub.Register.StartupHook("End", start);
else addEventListener("load", start);
})();

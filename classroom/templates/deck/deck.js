// Cut what is taller than a slide into slides below it, then start reveal.js.
(function () {
const WIDE = 1184, HIGH = 648, LEAST = 0.72; // room on a slide; what is shrunk keeps this share
const PICTURE = ".jp-RenderedHTML > img";

// Pictures as large as their caption leaves room for; text that must not be wrapped, as wide as fits.
function fit(unit, room) {
  for (const pre of unit.querySelectorAll(".jp-RenderedText pre")) {
    const share = pre.clientWidth / pre.scrollWidth;
    if (share < 1) pre.style.fontSize = 21 * Math.max(share * 0.99, LEAST) + "px";
  }
  const images = [...unit.querySelectorAll(PICTURE)];
  for (const image of images) {
    image.style.width = Math.min(WIDE, 1.6 * image.naturalWidth) + "px";
    const over = unit.offsetHeight - room;
    if (over > 0) {
      const height = Math.max(image.offsetHeight - over, 240);
      image.style.width = height / image.naturalHeight * image.naturalWidth + "px";
    }
  }
  const share = Math.min(room / unit.offsetHeight, WIDE / unit.scrollWidth);
  if (share < 1) unit.style.zoom = Math.max(share, LEAST);
}

function cut(section) {
  const title = section.parentNode.querySelector("h1, h2, h3")?.cloneNode(true);
  title?.querySelectorAll(".anchor-link").forEach((link) => link.remove());
  let page = section, left = HIGH, lone = false;
  for (const unit of [...section.children]) {
    if (page.childElementCount === 0 || unit === section.firstElementChild || lone) fit(unit, left);
    else if (unit.querySelector(PICTURE)) fit(unit, HIGH - 40);
    else fit(unit, HIGH);
    let height = unit.getBoundingClientRect().height;
    if (height > left + 1 && !lone && unit !== section.firstElementChild) {
      page.after(page = document.createElement("section"));
      const where = document.createElement("p");
      where.className = "where";
      where.textContent = title ? title.textContent : "";
      page.append(where);
      left = HIGH - where.getBoundingClientRect().height - 12;
      page.append(unit);
      fit(unit, left);
      unit.classList.remove("fragment");
      height = unit.getBoundingClientRect().height;
    } else if (page !== section) page.append(unit);
    if (unit === section.firstElementChild) unit.classList.remove("fragment");
    left -= height;
    lone = unit === section.firstElementChild && /^H\d$/.test(unit.querySelector(".jp-RenderedMarkdown")?.lastElementChild?.tagName);
  }
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

addEventListener("load", () => MathJax.Hub.Queue(start));
})();

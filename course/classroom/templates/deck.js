// One slide at a time, what lies on it as large as there is room for, keys, clocks, the speaker's window.
(function () {
const MOST = { show: 2.4, code: 1.8, print: 2.3, table: 1.8, turn: 1.8, formula: 4.5, clock: 1 };
const main = document.querySelector("main"), slides = [...document.querySelectorAll(".slide")];
const at = (id) => document.getElementById(id), root = document.documentElement;
const kind = (slide) => Object.keys(MOST).find((one) => slide.classList.contains(one));
let now = 0, notes = null;

// Make the thing of a slide as large as its room; a toy is laid out anew at the width that suits.
function fit(slide) {
  const thing = slide.querySelector(".thing");
  if (!thing) return;
  const room = thing.parentNode, high = room.clientHeight, wide = room.clientWidth;
  const machine = thing.querySelector(".bertedu-machine");
  if (machine) {
    thing.style.width = wide + "px";
    machine.style.height = high + "px";
    return;
  }
  const toy = thing.querySelector(".bertedu-play, .bertedu-attention, .bertedu-drawing");
  const share = (width) => {
    thing.style.zoom = 1;
    thing.style.width = width;
    const box = thing.getBoundingClientRect(), scale = main.getBoundingClientRect().width / 1280;
    const taken = Math.max(box.width / scale, thing.scrollWidth);
    return Math.min(high / (box.height / scale), wide / taken, MOST[kind(slide)]);
  };
  const widths = toy ? [wide, 1080, 960, 840, 720].map((one) => one + "px") : ["max-content"];
  const best = widths.reduce((a, b) => (share(b) > share(a) + 0.01 ? b : a));
  thing.style.zoom = share(best) * 0.998;
}

function go(to, quiet = false) {
  now = Math.max(0, Math.min(slides.length - 1, to));
  slides.forEach((slide, i) => {
    slide.classList.toggle("now", i === now);
    slide.inert = i !== now;
  });
  at("where").textContent = `${now + 1} / ${slides.length}`;
  if (!quiet) history.replaceState(null, "", `#${now + 1}`);
  fit(slides[now]);
  tell();
}

function resize() {
  const share = Math.min(innerWidth / 1280, innerHeight / 720);
  const left = (innerWidth - 1280 * share) / 2, top = (innerHeight - 720 * share) / 2;
  main.style.transform = `translate(${left}px, ${top}px) scale(${share})`;
}

const SAID = {  // in the language of the deck; {} stands for what changes
  left: {{ spoken("{} left; press to start or to set back") | tojson }},
  notes: {{ spoken("Notes: {}") | tojson }},
  plan: {{ spoken("slide {} of {}, planned to begin after {} min") | tojson }},
  next: {{ spoken("Next: {}") | tojson }}, last: {{ spoken("This is the last slide.") | tojson }},
};
const say = (text, ...parts) => parts.reduce((said, part) => said.replace("{}", () => part), text);

// A clock counts down from its minutes; another click stops it, and sets it back.
function wind(clock) {
  const whole = 60 * clock.dataset.minutes;
  const show = (left) => {
    const rest = Math.max(0, Math.ceil(left));
    clock.textContent = `${Math.floor(rest / 60)}:${String(rest % 60).padStart(2, "0")}`;
    clock.classList.toggle("over", left <= 0);
    clock.ariaLabel = say(SAID.left, clock.textContent);
  };
  let ticking = 0;
  clock.onclick = () => {
    clearInterval(ticking);
    if (ticking) return show(whole, (ticking = 0));
    const end = Date.now() + 1000 * whole;
    ticking = setInterval(() => show((end - Date.now()) / 1000), 250);
  };
  show(whole);
}

// The speaker's window: this slide's notes, the next slide as it will look, the time.
function openNotes() {
  notes = open("", "notes", "width=1100,height=760");
  const page = notes.document, begin = Date.now();
  page.title = say(SAID.notes, document.title);
  page.body.innerHTML = "<p><b id=clock></b> <span id=plan></span></p><h1 id=now></h1><div id=all></div>"
    + "<h2 id=next></h2><iframe aria-labelledby=next width=1280 height=720></iframe>";
  page.head.innerHTML = `<style>body { font: 22px/1.4 system-ui, sans-serif; margin: 20px; }
    #clock { font-size: 30px } iframe { border: 1px solid #888; zoom: .5; pointer-events: none; }</style>`;
  notes.onkeydown = keys;
  notes.setInterval(() => {
    const minutes = Math.floor((Date.now() - begin) / 60000);
    page.getElementById("clock").textContent = `${new Date().toTimeString().slice(0, 5)} · ${minutes} min`;
  }, 500);
  tell();
}

function tell() {
  if (!notes || notes.closed) return;
  const find = (id) => notes.document.getElementById(id), next = slides[now + 1];
  const title = (slide) => slide.querySelector("h1, h2").textContent;
  const minutes = slides.slice(0, now).reduce((sum, one) => sum + parseFloat(one.querySelector(".notes").textContent), 0);
  find("plan").textContent = say(SAID.plan, now + 1, slides.length, minutes);
  find("now").textContent = title(slides[now]);
  find("all").innerHTML = slides[now].querySelector(".notes").innerHTML;
  find("next").textContent = next ? say(SAID.next, title(next)) : SAID.last;
  const frame = notes.document.querySelector("iframe");
  frame.hidden = !next;
  if (next) frame.src = `${location.href.split("#")[0]}#${now + 2}.preview`;
}

function keys(event) {
  const inside = event.target.closest?.("input, textarea, select, .bertedu-play, .bertedu-machine, .bertedu-attention");
  if (inside || event.ctrlKey || event.altKey || event.metaKey) return;
  const acts = {
    ArrowRight: () => go(now + 1), ArrowDown: () => go(now + 1), PageDown: () => go(now + 1), " ": () => go(now + 1),
    ArrowLeft: () => go(now - 1), ArrowUp: () => go(now - 1), PageUp: () => go(now - 1),
    Home: () => go(0), End: () => go(slides.length), s: openNotes,
    f: () => (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen()),
    b: () => document.body.classList.toggle("dimmed"), d: () => root.classList.toggle("dark"),
  };
  const act = acts[event.key.length > 1 ? event.key : event.key.toLowerCase()];
  if (act && !(event.key === " " && event.target.closest?.("button"))) {
    event.preventDefault();
    act();
  }
}

const asked = () => {
  document.body.classList.toggle("preview", location.hash.endsWith(".preview"));
  go(parseInt(location.hash.slice(1) || "1") - 1, location.hash.endsWith(".preview"));
};

async function start() {
  await Promise.all([...document.images].map((image) => image.decode().catch(() => 0)));
  document.querySelectorAll("button.clock").forEach(wind);
  root.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
  resize();
  slides.forEach(fit);
  asked();
  addEventListener("hashchange", asked);
  addEventListener("resize", resize);
  document.addEventListener("keydown", keys);
  at("back").onclick = () => go(now - 1);
  at("onward").onclick = () => go(now + 1);
  // toys come alive by themselves, and some draw later
  new MutationObserver(() => requestAnimationFrame(() => fit(slides[now])))
    .observe(main, { attributeFilter: ["class"], subtree: true });
  document.body.classList.add("ready");
}

if (window.MathJax) MathJax.Hub.Register.StartupHook("End", start);
else addEventListener("load", start);
})();

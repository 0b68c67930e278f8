"use strict";
// Draws each chart from the JSON beside it, fits charts to paper, and marks where the reader is.
// The page is complete without it but for the charts.
const holders = [...document.querySelectorAll("[data-figure]")];
// What A4 leaves inside the margins of page.css: for a chart, for one of three side by side.
const PAPER_PX = { width: 650, third: 200, height: 880 };

function draw(holder) {
  if (holder.dataset.drawn) return;
  holder.dataset.drawn = "yes";
  const figure = JSON.parse(document.getElementById(holder.dataset.figure).textContent);
  Plotly.newPlot(holder, figure.data, figure.layout, { responsive: true, displayModeBar: false });
}

// One after the other, so that the text can be read and scrolled meanwhile.
function drawNext() {
  const holder = holders.find((one) => !one.dataset.drawn);
  if (!holder) return void (document.body.dataset.drawn = "yes");
  draw(holder);
  setTimeout(drawNext);
}
setTimeout(drawNext);

window.addEventListener("beforeprint", () => {
  for (const holder of holders) {
    draw(holder);
    const width = holder.closest(".multiples") ? PAPER_PX.third : PAPER_PX.width;
    const height = Math.min(holder.layout.height, PAPER_PX.height);
    holder.dataset.screen = `${holder.layout.height}`;
    holder.style.height = `${height}px`;
    Plotly.relayout(holder, { autosize: false, width, height });
  }
});
window.addEventListener("afterprint", () => {
  for (const holder of holders) {
    const height = Number(holder.dataset.screen);
    holder.style.height = `${height}px`;
    Plotly.relayout(holder, { autosize: true, width: null, height });
  }
});

const links = [...document.querySelectorAll("nav a")];
const sections = [...document.querySelectorAll("section[id]")];
const seen = new Set();
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target);
  const first = sections.find((section) => seen.has(section));
  if (!first) return;
  for (const link of links) {
    if (link.hash === `#${first.id}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}, { rootMargin: "0px 0px -60% 0px" });
for (const section of sections) observer.observe(section);

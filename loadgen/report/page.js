"use strict";
// Draws each chart from the JSON beside it; the page is complete without it but for the charts.
for (const holder of document.querySelectorAll("[data-figure]")) {
  const source = document.getElementById(holder.dataset.figure);
  const figure = JSON.parse(source.textContent);
  Plotly.newPlot(holder, figure.data, figure.layout, { responsive: true, displayModeBar: false });
}
window.addEventListener("beforeprint", () => {
  for (const holder of document.querySelectorAll("[data-figure]")) Plotly.Plots.resize(holder);
});

// Follows a run: asks once a second, puts texts into the page. Nothing is ever put in as markup.
"use strict";

const EVERY_MS = 1000, POINTS = 180;
const at = (id) => document.getElementById(id);
const lines = new Map();
let run = null, timer = 0;

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function cell(text, kind) { return element("td", text, kind); }

function head(text, colour) {
  const made = element("th");
  made.scope = "row";
  if (colour) {
    const key = element("span", undefined, "key");
    key.style.background = `var(--${colour})`;
    made.append(key);
  }
  made.append(text);
  return made;
}

function rows(id, list) {
  const made = list.map((cells) => {
    const row = element("tr");
    row.append(...cells);
    return row;
  });
  document.querySelector(`#${id} tbody`).replaceChildren(...made);
}

function setText(id, text) {
  if (at(id).textContent !== text) at(id).textContent = text;
}

function sparkline(side, clock, value, elapsed) {
  const name = `${side} ${clock}`, known = lines.get(name) || [];
  lines.set(name, known);
  if (value !== null && (!known.length || known[known.length - 1][0] < elapsed)) known.push([elapsed, value]);
  if (known.length > POINTS) known.shift();
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 150 24");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  if (known.length < 2) return svg;
  const from = known[0][0], span = known[known.length - 1][0] - from, top = Math.max(...known.map((p) => p[1]));
  const points = known.map(([x, y]) => `${(150 * (x - from) / span).toFixed(1)},${(23 - 21 * y / top).toFixed(1)}`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", points.join(" "));
  line.setAttribute("fill", "none");
  line.setAttribute("stroke-width", "1.6");
  line.setAttribute("vector-effect", "non-scaling-stroke");
  line.style.stroke = `var(--${clock.split("_")[0]})`;
  svg.append(line);
  return svg;
}

function percentiles(found) {
  return [cell(found.p50.text), cell(found.p95.text), cell(found.p99.text), cell(found.n.toLocaleString("en"))];
}

function clockRow(found, elapsed) {
  const drawn = cell();
  drawn.append(sparkline(found.side, found.clock, found.recent.p95.ms, elapsed));
  const whole = percentiles(found.whole);
  whole[0].className = "edge";
  return [head(found.title, found.clock.split("_")[0]), ...percentiles(found.recent), ...whole, drawn];
}

function reached(found) {
  return cell(found.text, found.ok === null ? "" : found.ok ? "ok" : "miss");
}

function standing(figures) {
  at("bar").replaceChildren(...figures.standing.filter((one) => one.count).map((one) => {
    const part = element("i");
    part.style.background = `var(--${one.key})`;
    part.style.flexGrow = one.count;
    return part;
  }));
  at("standing").replaceChildren(...figures.standing.map((one) => {
    const made = element("li"), key = element("span", undefined, "key");
    key.style.background = `var(--${one.key})`;
    made.dataset.standing = one.key;
    made.append(key, element("b", one.count.toLocaleString("en")), ` ${one.name}`);
    return made;
  }));
}

function show(figures) {
  if (figures.run !== run) lines.clear();
  run = figures.run;
  setText("head", `${figures.crowd}, ${figures.in_flight.toLocaleString("en")} turns under way`);
  setText("lead", `${figures.run}: ${figures.when}, ${figures.turns.toLocaleString("en")} turns ended`);
  setText("fitness", figures.fitness.text);
  at("fitness").className = `light ${figures.fitness.light}`;
  standing(figures);
  for (const made of document.querySelectorAll(".window")) made.textContent = `last ${figures.window_s} s`;
  rows("clocks", figures.clocks.map((one) => clockRow(one, figures.elapsed_s)));
  at("targets-part").hidden = !figures.targets.length;
  rows("targets", figures.targets.map((one) => [head(one.text), reached(one.recent), reached(one.whole)]));
  setText("failed", figures.failed);
  rows("outcomes", figures.outcomes.map((one) => [
    head(one.outcome), cell(one.cause || "\u2013", "left"), cell(one.recent.toLocaleString("en")), cell(one.whole.toLocaleString("en")),
  ]));
  rows("recovery", figures.recovery.map((one) => [
    head(one.name), cell(one.lost.toLocaleString("en")), cell(one.returned.toLocaleString("en")),
    cell(one.completed.toLocaleString("en")), cell(one.p50.text), cell(one.p95.text),
  ]));
  at("run").hidden = false;
}

function conclude(over, report) {
  at("over").hidden = !over && !report;
  for (const link of [at("open"), at("save")]) link.hidden = !report;
  if (!report) {
    setText("verdict", "");
    setText("headline", "The run is over; its report is being made.");
    return;
  }
  setText("verdict", report.verdict);
  setText("headline", report.headline);
}

async function follow() {
  let pause = EVERY_MS;
  try {
    const answer = await fetch("milestones/figures", { cache: "no-store" });
    if (!answer.ok) throw new Error(`${answer.status}`);
    const told = await answer.json();
    if (told.figures) show(told.figures);
    conclude(told.figures && told.figures.over, told.report);
    document.documentElement.dataset.followed = Date.now();
  } catch (error) {
    setText("lead", `Locust does not answer (${error.message}); these are the last figures.`);
    pause = 5 * EVERY_MS;
  }
  clearTimeout(timer);
  timer = setTimeout(follow, document.hidden ? 5 * EVERY_MS : pause);
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) follow(); });
follow();

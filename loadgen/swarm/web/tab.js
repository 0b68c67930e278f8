// Shows our page in a frame while Locust's tab "Milestones" is chosen: Locust gives a tab its name only.
"use strict";

(() => {
  const KEY = "milestones";
  const tabs = () => document.querySelector("[role=tablist]");
  const chosen = () => new URLSearchParams(location.search).get("tab") === KEY && tabs();
  let frame = null;

  function dark() {
    const [red, green, blue] = (getComputedStyle(document.body).backgroundColor.match(/\d+/g) || [255, 255, 255]).map(Number);
    return red + green + blue < 384;
  }

  function fit() {
    const page = frame && frame.contentDocument;
    if (!page || !page.body) return;
    page.documentElement.dataset.theme = dark() ? "dark" : "light";
    page.body.style.background = getComputedStyle(document.body).backgroundColor;
    const wanted = `${page.body.scrollHeight}px`;
    if (frame.style.height !== wanted) frame.style.height = wanted;
  }

  function place() {
    if (!chosen()) {
      if (frame) frame.remove();
      frame = null;
      return;
    }
    if (frame && frame.isConnected) return fit();
    frame = document.createElement("iframe");
    frame.src = `./${KEY}`;
    frame.title = "Milestones";
    frame.style.cssText = "border:0;width:100%;display:block;min-height:60vh";
    frame.addEventListener("load", () => {
      new ResizeObserver(fit).observe(frame.contentDocument.body);
      fit();
    });
    (tabs().closest(".MuiContainer-root") || document.body).append(frame);
  }

  new MutationObserver(place).observe(document.getElementById("root"), { childList: true, subtree: true, attributes: true });
  addEventListener("popstate", place);
  place();
})();

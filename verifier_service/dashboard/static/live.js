// Panels renew themselves: data-live="5" on an element with hx-trigger="load, live" asks every 5 seconds,
// not while the tab is hidden, the panel has the focus or something in it is ticked, and keeps what is
// folded open.
(() => {
  "use strict";
  const LEAST_S = 2;
  const open = new WeakMap();

  function renew(panel) {
    if (document.hidden || panel.contains(document.activeElement) || panel.querySelector("input:checked")) return;
    htmx.trigger(panel, "live");
  }

  for (const panel of document.querySelectorAll("[data-live]")) {
    setInterval(renew, Math.max(LEAST_S, Number(panel.dataset.live)) * 1000, panel);
  }
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    open.set(event.detail.target, [...event.detail.target.querySelectorAll("details")].map((one) => one.open));
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    const kept = open.get(event.detail.target) || [];
    [...event.detail.target.querySelectorAll("details")].forEach((one, at) => { one.open = Boolean(kept[at]); });
  });
})();

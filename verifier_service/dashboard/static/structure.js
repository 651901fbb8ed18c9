// The structure in three dimensions, by 3Dmol.js. Without WebGL the table of atoms is all there is.
(() => {
  "use strict";
  const box = document.getElementById("structure");
  if (!box || !window.$3Dmol) return;
  const probe = document.createElement("canvas");
  if (!probe.getContext("webgl2") && !probe.getContext("webgl")) return;
  const surface = () => getComputedStyle(document.documentElement).getPropertyValue("--surface").trim();
  box.hidden = false;
  const view = window.$3Dmol.createViewer(box, { backgroundColor: surface() });
  view.addModel(document.querySelector(box.dataset.xyz).textContent, "xyz");
  view.setStyle({}, { stick: { radius: 0.14 }, sphere: { scale: 0.25 } });
  view.zoomTo();
  view.render();
  document.getElementById("structure-hint").hidden = false;
  document.getElementById("structure-tools").hidden = false;
  const turns = { left: () => view.rotate(-30, "y"), right: () => view.rotate(30, "y"), in: () => view.zoom(1.25), out: () => view.zoom(0.8) };
  document.getElementById("structure-tools").addEventListener("click", (event) => {
    turns[event.target.dataset.turn]?.();
    view.render();
  });
  new MutationObserver(() => { view.setBackgroundColor(surface()); view.render(); }).observe(document.documentElement, { attributeFilter: ["data-theme"] });
})();

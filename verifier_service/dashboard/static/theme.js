// Runs before the page is painted, so that a chosen theme does not flash.
(() => {
  "use strict";
  try {
    const chosen = localStorage.getItem("verifier-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* storage is closed: the system's theme holds */ }
})();

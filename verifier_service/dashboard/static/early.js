// Runs before the page is painted: a chosen theme does not flash, and keys pressed while the other scripts
// are still on their way are kept for them.
(() => {
  "use strict";
  try {
    const chosen = localStorage.getItem("verifier-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* storage is closed: the system's theme holds */ }

  const MOST = 20;
  const kept = [];
  const nowhere = () => [null, document.body, document.documentElement].includes(document.activeElement);

  // What has the focus answers for itself; a held key is one press.
  function keep(event) {
    if (!nowhere() || event.repeat || event.isComposing || kept.length >= MOST) return;
    event.stopImmediatePropagation();
    kept.push(event);
  }

  document.addEventListener("keydown", keep, true);
  document.addEventListener("DOMContentLoaded", () => {
    document.removeEventListener("keydown", keep, true);
    for (const { key, code, ctrlKey, metaKey, altKey, shiftKey } of kept) {
      const focused = document.activeElement;
      if (focused?.matches("input:not([type=radio]), textarea, select")) return; // the rest was meant as text
      const again = { key, code, ctrlKey, metaKey, altKey, shiftKey, bubbles: true, cancelable: true };
      (focused || document.body).dispatchEvent(new KeyboardEvent("keydown", again));
    }
  });
})();

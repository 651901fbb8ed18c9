// Behaviour of every page. Elements say what they want in attributes:
//   data-hotkey="j" or "g d"     a key, or one after another; presses a link or button, focuses a field
//   data-hotkey-label="Next"     how the ? dialog names it (else the element's own text)
//   data-confirm="Really?"       on a form, a button, or a choice that is made: asks before it is sent
//   data-guard                   on a form: warns before a page with unsent changes is left
//   data-copy="#id"              copies the text of an element
//   data-max-bytes="8388608"     on a file's field: says at once that a file is too large, and does not send it
// Scripts of pages use window.verifier: say(text, bad), hotkey(keys, label, action).
(() => {
  "use strict";
  const SEQUENCE_MS = 1200;
  const own = new Map();
  let pending = "", pendingUntil = 0;

  const store = {
    get(name) { try { return localStorage.getItem(name); } catch { return null; } },
    set(name, value) { try { localStorage.setItem(name, value); } catch { /* not kept */ } },
  };

  function say(text, bad = false) {
    const line = document.createElement("p");
    line.className = bad ? "message bad" : "message";
    line.textContent = text;
    document.getElementById("messages").replaceChildren(line);
  }

  function hotkey(keys, label, action) { own.set(keys, { label, action }); }

  const usable = (element) => !element.disabled && element.getClientRects().length > 0;
  const inPage = () => [...document.querySelectorAll("[data-hotkey]")].filter(usable);

  function labelOf(element) {
    return element.dataset.hotkeyLabel || element.getAttribute("aria-label") || element.textContent.trim();
  }

  function actionOf(keys) {
    const element = inPage().find((one) => one.dataset.hotkey === keys);
    if (element) {
      const field = element.matches("input:not([type=checkbox],[type=radio]), select, textarea");
      return () => (field ? element.focus() : element.click());
    }
    return own.get(keys)?.action;
  }

  function begins(keys) {
    return [...inPage().map((one) => one.dataset.hotkey), ...own.keys()].some((one) => one.startsWith(`${keys} `));
  }

  function isTyping(target) {
    return target.isContentEditable || target.matches?.("input:not([type=checkbox],[type=radio],[type=button],[type=submit]), select, textarea");
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || event.isComposing) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    if (store.get("verifier-hotkeys") === "off" && event.key !== "?") return;
    const keys = pending && performance.now() < pendingUntil ? `${pending} ${event.key}` : event.key;
    pending = "";
    const action = actionOf(keys);
    if (action) {
      event.preventDefault();
      action();
    } else if (begins(keys)) {
      event.preventDefault();
      pending = keys;
      pendingUntil = performance.now() + SEQUENCE_MS;
    }
  }

  function showHotkeys() {
    const listed = [...inPage().map((one) => [one.dataset.hotkey, labelOf(one)]), ...[...own].map(([keys, { label }]) => [keys, label])];
    const seen = new Set();
    document.getElementById("hotkeys-list").replaceChildren(...listed.filter(([keys]) => !seen.has(keys) && seen.add(keys)).map(([keys, label]) => {
      const row = document.createElement("tr");
      const key = row.appendChild(document.createElement("td"));
      for (const part of keys.split(" ")) {
        key.appendChild(document.createElement("kbd")).textContent = part;
        key.append(" ");
      }
      row.appendChild(document.createElement("td")).textContent = label;
      return row;
    }));
    document.getElementById("hotkeys").showModal();
  }

  function toggleTheme() {
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
    store.set("verifier-theme", root.dataset.theme);
    say(`The ${root.dataset.theme} theme is on.`);
  }

  function onClick(event) {
    if (event.target.closest("[data-theme-toggle]")) toggleTheme();
    if (event.target.closest("[data-hotkeys-open]")) showHotkeys();
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      const text = document.querySelector(copy.dataset.copy).textContent.trim();
      const written = navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject();
      written.then(() => say("Copied."), () => say("Copy it by hand: the browser does not let pages do it here.", true));
    }
  }

  let dirty = null;
  document.addEventListener("input", (event) => {
    if (event.target.form?.hasAttribute("data-guard")) dirty = event.target.form;
  });
  document.addEventListener("submit", (event) => {
    const chosen = event.target.querySelector("input:checked[data-confirm]");
    const question = event.submitter?.dataset.confirm || chosen?.dataset.confirm || event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
    else if (dirty === event.target) dirty = null;
  });
  window.addEventListener("beforeunload", (event) => { if (dirty?.isConnected) event.preventDefault(); });

  document.addEventListener("change", (event) => {
    const most = Number(event.target.dataset?.maxBytes);
    if (!most) return;
    const large = [...event.target.files].find((file) => file.size > most);
    const words = large ? `The file has more than ${most} bytes, the limit. Send less.` : "";
    event.target.setCustomValidity(words);
    if (words) say(words, true);
  });

  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick);

  const on = document.getElementById("hotkeys-on");
  on.checked = store.get("verifier-hotkeys") !== "off";
  on.addEventListener("change", () => store.set("verifier-hotkeys", on.checked ? "on" : "off"));

  document.body.addEventListener("htmx:responseError", (event) => {
    const plain = event.detail.xhr.getResponseHeader("Content-Type")?.startsWith("text/plain");
    const text = plain ? event.detail.xhr.responseText : "That did not work. Try again.";
    say(text.charAt(0).toUpperCase() + text.slice(1), true);
  });
  document.body.addEventListener("htmx:sendError", () => say("The server cannot be reached. Try again.", true));

  window.verifier = Object.freeze({ say, hotkey });
})();

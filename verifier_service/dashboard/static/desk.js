// The desk: keys, drafts that outlive a reload, claims and graces that end, sending without losing the page.
(() => {
  "use strict";
  const DRAFT_DAYS = 14, WARN_S = 120;
  const work = () => document.getElementById("work");
  const form = () => document.getElementById("decision");
  const speak = (text) => { const line = document.getElementById("spoken"); if (line) line.textContent = text; };
  let sending = false, shownAt = Date.now(), warned = false, heldUntil = 0, took = null;

  // ---- drafts: what was typed, by person and item
  const draftKey = () => `verifier-draft:${work().dataset.login}:${work().dataset.item}`;
  const storage = {
    get(key) { try { return JSON.parse(localStorage.getItem(key)); } catch { return null; } },
    set(key, value) { try { localStorage.setItem(key, JSON.stringify(value)); } catch { /* not kept */ } },
    drop(key) { try { localStorage.removeItem(key); } catch { /* nothing to remove */ } },
  };
  const kept = (name) => name !== "csrf" && name !== "human_s";

  function typed() {
    return Object.fromEntries([...new FormData(form())].filter(([name, value]) => kept(name) && value !== ""));
  }

  function save() {
    const values = typed();
    if (Object.keys(values).length) storage.set(draftKey(), { at: Date.now(), values });
    else storage.drop(draftKey());
  }

  function restore() {
    const draft = storage.get(draftKey());
    if (!draft?.values || Object.keys(typed()).length) return;
    for (const element of form().elements) {
      const value = draft.values[element.name];
      if (typeof value !== "string" || !kept(element.name)) continue;
      if (element.type === "radio") element.checked = element.value === value;
      else element.value = value;
    }
    note("What you had typed here before is back. It is kept in this browser until you send it.");
  }

  // What was typed on an item that ended meanwhile: read-only, until its author discards it.
  function keep(box) {
    const draft = storage.get(draftKey());
    if (!draft?.values) return;
    const labels = JSON.parse(box.dataset.labels);
    const lines = labels.filter(([name]) => draft.values[name]);
    document.getElementById("kept-text").value = lines.map(([name, label]) => `${label}: ${draft.values[name]}`).join("\n");
    box.hidden = !lines.length;
  }

  function discard() {
    storage.drop(draftKey());
    document.getElementById("kept").hidden = true;
    speak("Discarded.");
  }

  function prune() {
    const old = Date.now() - DRAFT_DAYS * 86400000;
    try {
      for (const key of Object.keys(localStorage)) {
        if (key.startsWith("verifier-draft:") && !(storage.get(key)?.at > old)) storage.drop(key);
      }
    } catch { /* storage is closed */ }
  }

  // ---- words
  function note(text, bad = false, link = null) {
    const line = document.createElement("p");
    line.className = bad ? "message bad" : "message";
    line.dataset.note = "";
    line.setAttribute("role", bad ? "alert" : "status");
    line.textContent = text;
    if (link) {
      const anchor = line.appendChild(document.createElement("a"));
      anchor.href = link.href;
      anchor.textContent = link.text;
      anchor.before(" ");
    }
    document.querySelector("[data-note]")?.remove();
    document.getElementById("decision-title").after(line);
    line.scrollIntoView({ block: "nearest" });
  }

  function minutes(seconds) {
    const count = Math.ceil(seconds / 60);
    return seconds < 60 ? `${Math.ceil(seconds)} seconds` : `${count} ${count === 1 ? "minute" : "minutes"}`;
  }

  // ---- claims and graces
  function claimTick() {
    const words = document.querySelector("[data-claim-words]");
    if (!heldUntil || !form() || !words) return;
    const left = (heldUntil - Date.now()) / 1000;
    const shown = document.querySelector("[data-claim-left]");
    if (shown) shown.textContent = left > 0 ? `Yours for ${minutes(left)} more` : "Not yours any more";
    if (left <= 0) return lose("Your claim on this item has ended. What you typed is kept. Claim it again to send your decision.");
    if (left <= Math.min(WARN_S, Number(work().dataset.heldS) / 2) && !warned) {
      warned = true;
      words.hidden = false;
      words.textContent = `Your claim ends in ${minutes(left)}. Press e to hold the item for longer.`;
      speak(words.textContent);
    }
  }

  function lose(text) {
    heldUntil = 0;
    const words = document.querySelector("[data-claim-words]");
    words.hidden = false;
    words.textContent = text;
    speak(text);
    document.querySelector("[data-claim-again]").hidden = false;
    document.getElementById("send").disabled = true;
  }

  function hold(seconds) {
    heldUntil = seconds > 0 ? Date.now() + seconds * 1000 : 0;
    work().dataset.heldS = seconds;
    warned = false;
    const words = document.querySelector("[data-claim-words]");
    if (words) words.hidden = true;
  }

  function undoTick() {
    for (const box of document.querySelectorAll("[data-undo-left]")) {
      box.undoUntil ??= Date.now() + Number(box.dataset.undoLeft) * 1000;
      const left = Math.ceil((box.undoUntil - Date.now()) / 1000);
      const words = box.querySelector("[data-undo-words]");
      if (left > 0) { words.textContent = `It takes effect in ${left} s.`; continue; }
      words.textContent = "It has taken effect and cannot be undone here any more.";
      speak(words.textContent);
      box.querySelector("form")?.remove();
      box.removeAttribute("data-undo-left");
    }
  }

  // ---- sending
  async function send(target) {
    if (sending) return;
    sending = true;
    const button = document.getElementById("send");
    button.disabled = true;
    button.setAttribute("aria-busy", "true");
    // The same number when the same is sent again: it is one decision.
    took ??= Math.round((Date.now() - shownAt) / 100) / 10;
    target.elements.human_s.value = took;
    save();
    let answer = null;
    try {
      answer = await fetch(target.action, { method: "POST", body: new URLSearchParams(new FormData(target)), redirect: "manual" });
    } catch {
      note("The server cannot be reached. What you typed is kept: try again.", true);
    }
    sending = false;
    button.disabled = false;
    button.removeAttribute("aria-busy");
    if (answer) await heard(answer);
  }

  async function heard(answer) {
    const next = answer.headers.get("X-Go-To");
    if (answer.ok && next?.startsWith("/ui/")) {
      storage.drop(draftKey());
      location.assign(next);
      return;
    }
    if (answer.status === 401) return ended();
    const text = await answer.text();
    if (answer.headers.get("Content-Type")?.startsWith("text/html")) return replace(text);
    note(`${text.charAt(0).toUpperCase()}${text.slice(1)} What you typed is kept.`, true);
  }

  function ended() {
    const href = `/ui/login?next=${encodeURIComponent(work().dataset.path)}`;
    note("Your session has ended. What you typed is kept in this browser.", true, { href, text: "Sign in again and go on here" });
  }

  function replace(text) {
    const found = new DOMParser().parseFromString(text, "text/html").getElementById("work");
    if (!found) return location.reload();
    work().replaceWith(document.adoptNode(found));
    begin();
    const wrong = document.querySelector("#work [aria-invalid=true], #work [data-claim-again]:not([hidden]) button, #work [role=alert]");
    (wrong?.matches("p") ? work() : wrong)?.focus();
  }

  async function renew(target) {
    try {
      const answer = await fetch(target.action, { method: "POST", body: new URLSearchParams(new FormData(target)) });
      if (answer.status === 401) return ended();
      if (!answer.ok) return lose("The item could not be held for longer: your claim has ended. What you typed is kept. Claim it again to send your decision.");
      const told = await answer.json();
      hold(told.left_s);
      note(told.said);
      claimTick();
    } catch {
      note("The server cannot be reached. What you typed is kept: try again.", true);
    }
  }

  // ---- keys
  function grade(digit) {
    const groups = [...document.querySelectorAll("#decision fieldset.score")];
    const open = groups.find((one) => one.contains(document.activeElement)) || groups.find((one) => !one.querySelector(":checked")) || groups[0];
    const choice = open?.querySelector(`input[type=radio][value="${digit}"]`);
    if (!choice) {
      if (open) speak(`${open.querySelector("legend").textContent} has no grade ${digit}.`);
      return;
    }
    choice.click();
    const label = choice.parentElement.textContent.trim().replace(/\s+/g, " ");
    speak(`${open.querySelector("legend").textContent}: ${label}`);
    const next = groups.find((one) => !one.querySelector(":checked"));
    (next?.querySelector("input") || choice).focus();
  }

  function keys() {
    if (!form() || !window.verifier) return;
    window.verifier.hotkey("r", "Reject, and say why", () => {
      const choice = form()?.querySelector("input[name=verdict][value=reject]");
      choice?.click();
      document.getElementById("reason")?.focus();
    });
    if (!document.querySelector("#decision fieldset.score")) return;
    for (let digit = 0; digit <= 9; digit += 1) {
      window.verifier.hotkey(String(digit), `Give the next score the grade ${digit}`, () => grade(digit));
    }
  }

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !form()) return;
    if (document.querySelector("dialog[open]")) return;
    event.preventDefault();
    if (document.getElementById("send").disabled) { if (!sending) speak("Claim the item to send your decision."); }
    else form().requestSubmit(document.getElementById("send"));
  });

  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return;
    if (event.target.id === "decision") { event.preventDefault(); send(event.target); }
    if (event.target.id === "renew") { event.preventDefault(); renew(event.target); }
  });

  document.addEventListener("input", (event) => {
    if (!event.target.form || event.target.form !== form()) return;
    took = null;
    save();
  });

  document.addEventListener("click", (event) => {
    const dialog = document.getElementById("skip");
    if (event.target.closest("[data-skip-open]")) dialog?.showModal();
    if (event.target.closest("[data-skip-close]")) dialog?.close();
    if (event.target.closest("[data-draft-drop]")) discard();
    const all = event.target.closest("[data-check-all]");
    if (all) for (const box of document.querySelectorAll("input[name=review]")) box.checked = all.checked;
  });

  function hideBroken(image) {
    image.hidden = true;
    image.nextElementSibling.hidden = false;
  }

  function begin() {
    const box = work();
    if (!box) return;
    if (form()) { hold(Number(box.dataset.heldS)); restore(); save(); }
    else if (document.getElementById("kept")) keep(document.getElementById("kept"));
    else storage.drop(draftKey());
    if (location.pathname !== box.dataset.path) history.replaceState(null, "", box.dataset.path);
    claimTick();
  }

  prune();
  begin();
  keys();
  for (const image of document.querySelectorAll("img[data-drawing]")) {
    if (image.complete && !image.naturalWidth) hideBroken(image);
    image.addEventListener("error", () => hideBroken(image));
  }
  undoTick();
  const undo = document.querySelector("[data-undo-left] [data-undo-words]");
  if (undo) speak(`You can undo your decision with the key u. ${undo.textContent}`);
  setInterval(() => { claimTick(); undoTick(); }, 1000);
})();

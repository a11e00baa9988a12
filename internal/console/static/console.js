// Keys, the login by address, and what keeps a page calm while it refreshes itself. Every page works without this file.
"use strict";

(() => {
  const $ = (s, of = document) => of.querySelector(s);
  const typing = (e) => e.target.closest("input, textarea, select, [contenteditable]");
  let chosen = null;
  let leading = 0; // when g was pressed

  // A login address has its code behind the #, which no server sees. It leaves the address bar at once. Somebody who
  // opens the address on the page to log in only changes that part.
  const login = $("[data-login]");
  const useCode = () => {
    if (!/^#[a-z0-9]{20,}$/.test(location.hash)) return;
    login.elements.code.value = location.hash.slice(1);
    history.replaceState(null, "", location.pathname);
    login.requestSubmit();
  };
  if (login) {
    useCode();
    addEventListener("hashchange", useCode);
  }

  // A browser that is logged out shows nothing any more: not in another tab, not if the stream of a page ends, and not
  // on a page that the browser has kept and brings back.
  const look = async (unreachable) => {
    try {
      const answer = await fetch("/session", { headers: { Accept: "application/json" } });
      if (answer.status === 401) location.replace("/login?to=" + encodeURIComponent(location.pathname + location.search));
      else document.documentElement.hidden = false;
    } catch { unreachable?.(); }
  };
  if ($("header.top")) {
    for (const lost of ["htmx:sseError", "corebot:lost"]) document.addEventListener(lost, () => look());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
    addEventListener("pagehide", (e) => { if (e.persisted) document.documentElement.hidden = true; });
    addEventListener("pageshow", (e) => { if (e.persisted) look(() => location.reload()); });
  }

  const rows = () => [...document.querySelectorAll("[data-row]")].filter((r) => r.offsetParent);
  const choose = (row) => {
    if (chosen) chosen.classList.remove("chosen");
    chosen = row;
    if (!row) return;
    row.classList.add("chosen");
    row.scrollIntoView({ block: "nearest" });
    const to = $("a, button, summary", row);
    if (to) to.focus({ preventScroll: true });
  };
  const move = (by) => {
    const all = rows();
    if (all.length) choose(all[Math.min(Math.max(all.indexOf(chosen) + by, 0), all.length - 1)]);
  };
  const places = { n: "/", c: "/chats", a: "/approvals", d: "/deadletters", t: "/tasks", h: "/health" };

  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing) return;
    if (typing(e)) {
      if (e.key === "Escape") e.target.blur();
      return;
    }
    const led = Date.now() - leading < 1000;
    leading = 0;
    if (led && places[e.key]) {
      location.assign(places[e.key]);
    } else if (e.key === "g") {
      leading = Date.now();
    } else if (e.key === "/") {
      const fields = document.querySelectorAll("main [data-search], [data-search]");
      const field = $("main [data-search]") || fields[0];
      if (!field) return;
      const closed = field.closest("details:not([open])");
      if (closed) closed.open = true;
      field.focus();
    } else if (e.key === "j" || e.key === "k") {
      move(e.key === "j" ? 1 : -1);
    } else if (e.key === "a") {
      // Only a request that was chosen, or the only one, is meant.
      const requests = [...document.querySelectorAll("[data-approve]")];
      const one = chosen && $("[data-approve]", chosen);
      if (!one && requests.length !== 1) return;
      (one || requests[0]).click();
    } else if (e.key === "?") {
      const help = $("#help");
      if (help && !help.open) help.showModal();
    } else {
      return;
    }
    e.preventDefault();
  });

  // A refresh waits while somebody writes, reads an opened part or is about to press a button.
  let late = null;
  const busy = (at) => at.contains(document.activeElement) && document.activeElement !== document.body
    || $("details[open]:not(.request details)", at);
  document.addEventListener("htmx:beforeRequest", (e) => {
    const at = e.target;
    if (at.id !== "live" || !busy(at)) return;
    e.preventDefault();
    clearTimeout(late);
    late = setTimeout(() => { if (at.isConnected) at.dispatchEvent(new Event("sse:changed")); }, 3000);
  });
  document.addEventListener("htmx:afterSwap", () => { chosen = null; });

  // A form is sent once, however often somebody presses. The browser brings the page back as it was.
  // What takes longer shows that it goes on.
  let work = null;
  const rest = () => { clearTimeout(work); document.body.removeAttribute("aria-busy"); };
  addEventListener("pageshow", rest);
  document.addEventListener("submit", (e) => {
    if (e.defaultPrevented || e.target.method === "dialog") return;
    clearTimeout(work);
    work = setTimeout(() => document.body.setAttribute("aria-busy", "true"), 300);
    if (e.target.method !== "post") return;
    const by = e.submitter;
    setTimeout(() => { if (by) by.disabled = true; }, 0);
    setTimeout(() => { if (by) by.disabled = false; }, 5000);
  });
})();

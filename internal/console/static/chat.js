// The stream of a chat. It names the place behind what the page shows, so that nothing is shown twice or lost, whoever
// ends the connection. An element whose id is there already is never added again.
"use strict";

(() => {
  const log = document.getElementById("log");
  if (!log || !log.dataset.stream) return;
  const waiting = document.getElementById("waiting");
  const draft = document.getElementById("draft");
  const draftText = document.getElementById("draft-text");
  const compose = document.getElementById("compose");
  let place = "";
  let source = null;
  let pause = 500;
  let offline = null;

  // The page follows the newest entry for as long as its reader is there.
  const atEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 120;
  const keep = (change) => {
    const follow = atEnd();
    change();
    if (follow) scrollTo(0, document.documentElement.scrollHeight);
  };
  const parts = (html) => {
    const t = document.createElement("template");
    t.innerHTML = html; // made by Corebot's templates, which escape every text
    return t.content;
  };
  const add = (html) => keep(() => {
    for (const item of [...parts(html).children]) {
      if (!document.getElementById(item.id)) log.append(item);
      if (item.classList.contains("from-assistant")) reset();
    }
    document.getElementById("empty")?.remove();
  });
  const reset = () => { draft.hidden = true; draftText.textContent = ""; };
  const unreachable = (yes) => {
    if (!yes) { offline?.remove(); offline = null; return; }
    if (offline) return;
    offline = document.createElement("p");
    offline.className = "flash wait offline";
    offline.setAttribute("role", "status");
    offline.textContent = "Corebot cannot be reached. The page goes on by itself.";
    draft.after(offline);
  };

  const open = () => {
    const url = new URL(log.dataset.stream, location.href);
    if (place) url.searchParams.set("after", place);
    source = new EventSource(url);
    source.addEventListener("hello", () => { pause = 500; unreachable(false); reset(); });
    source.addEventListener("entries", (e) => { place = e.lastEventId || place; add(e.data); });
    source.addEventListener("waiting", (e) => keep(() => {
      if (waiting.contains(document.activeElement)) {
        const form = document.activeElement.closest("form");
        if (form && e.data.includes(form.getAttribute("action"))) return; // somebody is about to answer it
      }
      waiting.replaceChildren(parts(e.data));
      if (!waiting.children.length) reset();
      else document.getElementById("empty")?.remove();
    }));
    source.addEventListener("text", (e) => keep(() => { draft.hidden = false; draftText.append(JSON.parse(e.data)); }));
    source.addEventListener("reset", reset);
    source.addEventListener("again", () => location.reload());
    source.onerror = () => {
      unreachable(true);
      document.dispatchEvent(new Event("corebot:lost")); // whether somebody is logged in is looked at
      source.close();
      setTimeout(open, pause);
      pause = Math.min(pause * 2, 5000);
    };
  };
  open();
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (e) => { if (e.persisted) open(); });

  if (!location.hash) scrollTo(0, document.documentElement.scrollHeight);
  if (!compose) return;
  const text = compose.elements.text;
  text.addEventListener("keydown", (e) => {
    if (e.key !== "Enter" || e.shiftKey || e.isComposing || matchMedia("(pointer: coarse)").matches) return;
    e.preventDefault();
    compose.requestSubmit();
  });
  const fresh = () => "console-" + [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
  compose.addEventListener("submit", async (e) => {
    e.preventDefault();
    const body = new URLSearchParams(new FormData(compose));
    const said = document.createElement("p");
    said.className = "flash bad";
    said.setAttribute("role", "alert");
    compose.parentNode.querySelector(".flash.bad[role=alert]")?.remove();
    try {
      const answer = await fetch(compose.action, { method: "POST", body, headers: { "HX-Request": "true", Accept: "application/json" } });
      if (answer.ok) {
        text.value = "";
        compose.elements.id.value = fresh();
        compose.elements.edit?.remove();
        compose.querySelector("p")?.remove();
        history.replaceState(null, "", location.pathname + (log.classList.contains("full") ? "?view=full" : ""));
        scrollTo(0, document.documentElement.scrollHeight);
        return;
      }
      if (answer.status === 401) { location.assign("/login?to=" + encodeURIComponent(location.pathname + location.search)); return; }
      const why = await answer.json();
      said.textContent = why.detail + (why.hint ? " Hint: " + why.hint : "");
    } catch {
      said.textContent = "The message was not sent: Corebot cannot be reached. Send it again; it is not stored twice.";
    }
    compose.before(said);
  });
})();

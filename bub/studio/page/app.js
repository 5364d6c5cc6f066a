// The page: who may see it, which view is open, and the keys that lead from one to another.

import { get, post } from "./api.js";
import { announce, button, field, find, h, mark, put, say } from "./dom.js";
import { connect, disconnect, listen, live } from "./feed.js";
import { plural } from "./format.js";
import { know, studio } from "./studio.js";

const VIEWS = {
  graph: () => import("./graph.js"), turns: () => import("./turns.js"), tapes: () => import("./tapes.js"),
  approvals: () => import("./approvals.js"), chat: () => import("./chat.js"), inbox: () => import("./inbox.js"),
  health: () => import("./health.js"), plots: () => import("./plots.js"), file: () => import("./file.js"),
};
const ORDER = ["graph", "turns", "approvals", "chat", "inbox", "health", "plots", "file"];
const TITLES = { graph: "Graph", turns: "Turns", tapes: "Tapes", approvals: "Approvals", chat: "Chat", inbox: "Inbox", health: "Health", plots: "Plots", file: "File" };
const main = find("main"), nav = find("nav"), help = find("help"), pulse = find("pulse");

let view = null, opened = "", isIn = false, visit = 0;

// Who may see it

/** Take the token out of the address, before anything else can see it there. */
function takeToken() {
  const token = location.hash.slice(1);
  if (!token || token.startsWith("/")) return null;
  history.replaceState(null, "", `${location.pathname}${location.search}#/graph`);
  return token;
}

async function enter(token) {
  isIn = false;
  let isWrong = false;
  const [, wanted] = location.hash.split("/");
  VIEWS[Object.hasOwn(VIEWS, wanted) ? wanted : "graph"]().catch(() => null); // its files come while the server looks who we are
  try {
    if (token) {
      await post("enter", { token }).catch((error) => {
        if (!error.isStranger) throw error;
        isWrong = true; // the browser may be known all the same
      });
    }
    know(await get("state"));
  } catch (error) {
    if (error.isStranger) return askForToken(isWrong ? "This token is not valid: Bub prints a new one each time it starts." : "");
    put(main, h("h1", null, "Bub studio"), h("div", { class: "problem", role: "alert" }, h("strong", null, error.message), h("p", null, error.help ?? "")),
      button("Try again", () => enter(null)));
    return null;
  }
  isIn = true;
  nav.hidden = false;
  put(find("where"), h("bdi", null, studio.workspace.split("/").filter(Boolean).pop() ?? studio.workspace), h("span", { class: "faint" }, ` ${studio.file ?? ""}`));
  find("where").title = studio.workspace;
  say(find("about"), `Bub ${studio.version}. Nothing on this page comes from another host.`);
  connect();
  return route();
}

function askForToken(why) {
  isIn = false;
  close();
  opened = "";
  disconnect();
  nav.hidden = true;
  put(find("where"));
  put(pulse);
  document.title = "Bub studio";
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, class: "mono" });
  const form = h("form", { class: "door", onsubmit: (event) => {
    event.preventDefault();
    const given = input.value.trim();
    enter(given.includes("#") ? given.slice(given.indexOf("#") + 1) : given);
  } },
  h("h1", null, "Bub studio"),
  why && h("p", { class: "problem", role: "alert" }, why),
  h("p", null, "Who has the token may see all that runs here, and answer for you. Bub prints it when it starts, at the end of the address:"),
  h("pre", null, `${location.origin}${location.pathname}#TOKEN`),
  h("p", { class: "faint" }, "Open that address, or put the token in here."),
  field("Token", input, "The whole address is fine, too."),
  h("button", { class: "button main" }, "Open the studio"));
  put(main, form);
  input.focus();
}

document.addEventListener("stranger", async () => {
  if (!isIn) return;
  isIn = false;
  try {
    await get("state");
    isIn = true;
  } catch (error) {
    if (error.isStranger) askForToken("Bub was started again, or you have signed out: it knows this browser no more. The token that it printed last opens the page.");
    else isIn = true;
  }
});

// Which view is open

function close() {
  view?.close?.();
  view = null;
}

// Scrolls as `scrollIntoView` does, which would also say from where the first Tab goes on: past the skip link.
function bring(anchor) {
  const at = anchor.getBoundingClientRect(), room = nav.getBoundingClientRect();
  nav.scrollBy(
    Math.min(0, at.left - room.left) + Math.max(0, at.right - room.right),
    Math.min(0, at.top - room.top) + Math.max(0, at.bottom - room.bottom));
}

/** Open the view that the address names; `#/turns/ID` is the view `turns` with the rest `["ID"]`. */
async function route() {
  const token = takeToken();
  if (token) return enter(token);
  if (!isIn) return null;
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(unescapePart);
  if (!Object.hasOwn(VIEWS, name)) {
    history.replaceState(null, "", "#/graph");
    return route();
  }
  if (name === opened && view?.rest) {
    view.rest(rest);
    return null;
  }
  const mine = ++visit, isFirst = !opened;
  close();
  opened = name;
  for (const anchor of nav.querySelectorAll("a")) {
    const isHere = anchor.dataset.view === name || (name === "tapes" && anchor.dataset.view === "turns");
    mark(anchor, "aria-current", isHere ? "page" : null);
    if (isHere) bring(anchor);
  }
  main.className = `view-${name}`;
  main.tabIndex = ["approvals", "inbox", "health"].includes(name) ? 0 : -1; // these may have nothing else that keys can scroll from
  const module = await VIEWS[name]();
  if (mine !== visit) return null;
  put(main);
  main.scrollTo(0, 0);
  view = module.open(main, rest);
  if (!isFirst) {
    if (!main.contains(document.activeElement)) main.focus({ preventScroll: true });
    announce(TITLES[name]);
  }
  tell();
  return null;
}

function unescapePart(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// What is always in sight

function tell() {
  if (!isIn) return;
  const waits = live.approvals, dead = live.inbox?.dead ?? 0;
  badge("turns", live.count, "running");
  badge("approvals", waits, "waiting for an answer");
  badge("inbox", dead, "set aside");
  badge("health", ["ok", "ready", "", null].includes(live.health) ? 0 : "!", String(live.health));
  if (shown !== live.state) {
    if (live.state === "lost") announce("Connection lost, trying again");
    else if (shown === "lost") announce("Connected again");
    mark(pulse, "class", `pulse ${(shown = live.state)}`);
  }
  say(pulse, { live: live.count ? `${plural(live.count, "turn")} running` : "Live", lost: "Connection lost, trying again …", connecting: "Connecting …" }[live.state]);
  const title = `${waits ? `(${waits}) ` : ""}${TITLES[opened] ?? "Studio"} · Bub`;
  if (document.title !== title) document.title = title;
}

let asked = 0, shown = "";
function badge(name, number, words) {
  const place = find(`badge-${name}`);
  const text = number ? String(number > 999 ? "999+" : number) : "";
  if (place.firstChild?.data !== text) put(place, text, text && h("span", { class: "sr" }, ` ${words}`));
  if (name === "approvals" && number !== asked) {
    if (number > asked) announce(`${plural(number, "question")} ${number === 1 ? "waits" : "wait"} for an answer`);
    asked = number;
  }
}

let reloads = null;
listen(async (batch) => {
  if (!isIn) return;
  tell();
  if (batch.again || (reloads !== null && live.reload !== reloads)) {
    try {
      know(await get("state"));
      view?.again?.();
    } catch { /* the next batch tries again, or the form asks for a token */ }
  }
  reloads = live.reload;
  view?.update?.(batch);
});

// Keys

const isTyping = (element) => element.closest("input:not([type=checkbox],[type=radio]), textarea, select, [contenteditable]");
let prefix = 0;

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !isIn) return;
  if (event.key === "Escape") {
    if (!help.open && view?.escape?.()) event.preventDefault();
    return;
  }
  if (help.open || !find("single-keys").checked || isTyping(event.target)) return;
  const followsG = performance.now() - prefix < 1500;
  prefix = 0;
  const target = ORDER[Number(event.key) - 1] ?? (followsG && ORDER.find((name) => name[0] === event.key));
  if (target) location.hash = `#/${target}`;
  else if (event.key === "g") prefix = performance.now();
  else if (event.key === "?") showHelp();
  else if (event.key === "/") main.querySelector("[data-search]")?.focus();
  else return;
  event.preventDefault();
});

function showHelp() {
  help.showModal();
}

find("open-help").addEventListener("click", showHelp);
find("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
find("leave").addEventListener("click", async () => {
  help.close();
  await post("leave").catch(() => null);
  askForToken("");
});
find("single-keys").checked = localStorage.getItem("bub.keys") !== "off";
find("single-keys").addEventListener("change", (event) => localStorage.setItem("bub.keys", event.target.checked ? "on" : "off"));
window.addEventListener("hashchange", route);

enter(takeToken());

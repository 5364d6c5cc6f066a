// Drives a headless Chromium for tests: reads a command as a line of JSON, and answers each with a line.
//
//   node driver.mjs EXECUTABLE PROFILE_FOLDER
//
//   {"open": {…}}                                 a page of its own, with a store of cookies of its own; its number
//   {"page": 0, "call": "click", "with": ["…"]}   a method of Playwright's page, or one of `more` below
//
// An answer is {"value": …} or {"error": "…"}. It lives until its stdin closes.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { chromium } from "playwright-core";

const [executablePath, folder] = process.argv.slice(2);
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf-8");
const QUIET = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
];
const PATIENCE = 30_000;

const browser = await chromium.launch({ executablePath, headless: true, args: QUIET, downloadsPath: folder });
const pages = [];

// What a page asks for and complains of, from its first moment on.
const open = async (options) => {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const inspector = await context.newCDPSession(page);
  const heard = { requests: [], problems: [] };
  context.on("request", (request) =>
    heard.requests.push({ method: request.method(), url: request.url(), headers: request.headers(), body: request.postData() }));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) heard.problems.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => heard.problems.push(`uncaught: ${error.message}`));
  page.on("dialog", (dialog) => { heard.problems.push(`dialog: ${dialog.message()}`); return dialog.dismiss(); });
  pages.push({ context, page, inspector, heard });
  return pages.length - 1;
};

const more = {
  requests: ({ heard }) => heard.requests,
  problems: ({ heard }) => heard.problems,
  cookies: ({ context }) => context.cookies(),
  see: async ({ page }, where) => (await page.waitForSelector(where)).evaluate((element) => element.innerText ?? element.textContent),
  forget: ({ heard }) => heard.problems.splice(0).length,
  close: ({ context }) => context.close(),
  offline: ({ context }, so) => context.setOffline(so),
  // By the inspector, so that the page's own policy, which allows no foreign script, is as it is.
  look: async ({ inspector }, script) => {
    const { result, exceptionDetails } = await inspector.send("Runtime.evaluate",
      { expression: script, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  },
  // Playwright's own way would have the page evaluate a text, which its policy forbids.
  until: async (here, script) => {
    for (const end = Date.now() + PATIENCE; !(await more.look(here, `Boolean(${script})`)); await sleep(20)) {
      if (Date.now() > end) throw new Error(`this does not come to hold: ${script}`);
    }
  },
  barriers: async (here) => {
    await more.look(here, AXE + ";0");
    const found = await more.look(here, "axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations)");
    return found.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => `${node.html} (${node.failureSummary})`).join(" | ")}`);
  },
  mouse_away: ({ page }) => page.mouse.move(0, 0),
  press: ({ page }, key) => page.keyboard.press(key),
};

const answer = async (order) => {
  if (order.open) return open(order.open);
  const here = pages[order.page];
  if (more[order.call]) return more[order.call](here, ...order.with);
  const found = await here.page[order.call](...order.with);
  return found === undefined || typeof found !== "object" || Array.isArray(found) ? found : null;
};

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = { value: (await answer(JSON.parse(line))) ?? null };
  } catch (error) {
    said = { error: error.message };
  }
  process.stdout.write(JSON.stringify(said) + "\n");
}
await browser.close();

// Drives the console of a Corebot in Chromium: a person's way with the mouse, hostile texts, a server that is killed in
// the middle, and axe over every page, on a phone and on a desktop, in light and in dark. The pages have something to
// show by then. It is started by scripts/console-axe.
import { chromium } from "playwright-core";
import { AxeBuilder } from "@axe-core/playwright";
import { execFile, execFileSync } from "node:child_process";
import { createServer } from "node:http";

const corebot = process.env.COREBOT, home = process.env.COREBOT_HOME, shots = process.env.SHOTS;
const env = { ...process.env, COREBOT_HOME: home };
// Kills the server and starts it again. The model below answers meanwhile, so nothing here may block.
const restart = () => new Promise((done, failed) => execFile(process.env.RESTART, { env }, (error, out) => error ? failed(new Error(out)) : done()));
const command = (...args) => new Promise((done, failed) => execFile(corebot, args, { env }, (error, out) => error ? failed(error) : done(out)));
const failures = [];
const expect = (holds, what) => { if (!holds) failures.push(what); console.log(holds ? "ok   " : "FAIL ", what); };

// The model calls the tool that a message names, has no key for a message with REFUSE, never ends with HANG, and says any
// other message again.
const model = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  const messages = JSON.parse(body || "{}").messages ?? [];
  const last = messages.findLastIndex((m) => m.role === "user");
  const content = messages[last]?.content ?? "";
  const text = typeof content === "string" ? content : content.map((p) => p.text ?? "").join("\n");
  const [, tool, args] = text.match(/CALL (\S+) (\{.*\})/) ?? [];
  const answered = messages.slice(last).some((m) => m.role === "tool");
  if (text.includes("REFUSE")) {
    response.writeHead(401, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ error: { message: "There is no such key." } }));
    return;
  }
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  const send = (delta, finish_reason = null) => response.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "scripted", choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
  if (tool && !answered) {
    send({ role: "assistant", tool_calls: [{ index: 0, id: "k" + Date.now(), type: "function", function: { name: tool, arguments: args } }] });
    send({}, "tool_calls");
  } else {
    send({ role: "assistant", content: answered ? "The call has ended." : text });
    if (text.includes("HANG")) return;
    send({}, "stop");
  }
  response.end("data: [DONE]\n\n");
});
await new Promise((done) => model.listen(0, "127.0.0.1", done));
Object.assign(env, { OPENAI_BASE_URL: `http://127.0.0.1:${model.address().port}/v1`, OPENAI_MODEL: "scripted", OPENAI_API_KEY: "none" });
await restart();

const login = execFileSync(corebot, ["console"], { env: { ...process.env, COREBOT_HOME: home }, stdio: ["ignore", "pipe", "ignore"] }).toString().trim();
const base = new URL(login).origin;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const context = await browser.newContext();
const page = await context.newPage();
const refused = []; // by the policy of the page, and errors of scripts
page.on("console", (m) => { if (m.type() === "error" && !/ERR_CONNECTION|ERR_SOCKET_NOT_CONNECTED|ERR_INCOMPLETE|ERR_EMPTY|status of 4/.test(m.text())) refused.push(m.text()); });
page.on("pageerror", (e) => refused.push(e.message));
page.on("dialog", async (d) => { failures.push("a dialog was opened: " + d.message()); await d.dismiss(); });
const foreign = [];
page.on("request", (r) => { if (new URL(r.url()).origin !== base) foreign.push(r.url()); });

// Log in, by the address alone.
await page.goto(login);
await page.waitForURL(base + "/");
expect(!page.url().includes("#"), "the code leaves the address bar");

// Talk, and watch a call.
await page.getByRole("link", { name: "Chats", exact: true }).first().click();
await page.getByLabel("New chat").fill("axe " + Date.now());
await page.getByRole("button", { name: "Begin" }).click();
const chat = page.url();
await page.getByRole("link", { name: "Full" }).click();
await page.getByLabel("Message", { exact: true }).fill('CALL fs_search {"pattern": "."}');
await page.getByRole("button", { name: "Send" }).click();
await page.locator("#log .from-assistant").last().waitFor();
await page.locator("#log .from-tool").first().waitFor();
expect(await page.locator("#log .entry.mine").count() === 1, "the message stands there once");
expect(await page.locator("#waiting .entry").count() === 0, "nothing waits any more");

// Hostile texts, which come back as the answer, too.
const corpus = [
  "<script>alert(1)</script>", "<img src=x onerror=alert(2)>", "\"><svg onload=alert(3)>", "[x](javascript:alert(4))",
  "![x](http://evil.example/x.png)", "`</code><script>alert(5)</script>`", "<a href=\"javascript:alert(6)\">x</a>",
  "{{.Secret}}", "</textarea><script>alert(7)</script>", "data:text/html,<script>alert(8)</script>", "<iframe srcdoc='<script>alert(9)</script>'>",
];
for (const text of corpus) {
  const before = await page.locator("#log .entry.mine").count();
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
  await page.waitForFunction((n) => document.querySelectorAll("#log .entry.mine").length > n, before);
}
await page.reload();
expect(await page.locator("main script, main iframe, main img, main [onerror], main [onload], main a[href^='javascript']").count() === 0, "no text became markup");

// A server that dies in the middle: the page goes on by itself, and shows nothing twice.
const shown = await page.locator("#log .entry").count();
await restart();
await page.locator(".offline").waitFor({ state: "detached", timeout: 20000 });
await page.waitForTimeout(1500);
expect(await page.locator("#log .entry").count() === shown, "after a kill nothing is shown twice");
await page.getByLabel("Message", { exact: true }).fill("are you there again?");
await page.getByRole("button", { name: "Send" }).click();
await page.waitForFunction((n) => document.querySelectorAll("#log .entry.mine").length >= n, corpus.length + 2, { timeout: 20000 });
const ids = await page.locator("#log .entry").evaluateAll((all) => all.map((e) => e.id));
expect(new Set(ids).size === ids.length, "every entry has its own element");

// A reminder, and what it cost.
await page.goto(base + "/tasks");
const form = page.locator("form[action='/tasks']");
if (!await form.isVisible()) await page.getByText("New task or reminder").click();
await form.getByLabel("What to do").fill("water the plants");
await form.getByLabel("When", { exact: true }).fill("10m");
await form.getByRole("button", { name: "Make the task" }).click();
await page.getByText(/runs next at/).waitFor({ timeout: 5000 }).catch(() => {});
expect(await page.getByText("water the plants").first().isVisible(), "the reminder stands in the list");
await page.goto(base + "/cost");
expect(await page.getByRole("heading", { name: "Cost" }).isVisible(), "the cost is shown");

// Keys.
await page.goto(base + "/");
await page.keyboard.press("?");
expect(await page.getByRole("dialog").isVisible(), "? shows the keys");
await page.keyboard.press("Escape");
await page.keyboard.press("/");
expect(await page.evaluate(() => document.activeElement.matches("[data-search]")), "/ goes to the search");

// Something to look at on every page: a call that waits, one that is decided, a dead letter, a child turn, a turn that
// runs, a task, a line of memory, and texts that have no place to break.
const long = "a-name-that-is-much-longer-than-a-phone-is-wide-and-has-no-place-to-break-at-all";
await command("send", "--chat", long, "--wait", "hello");
await command("send", "--chat", "memory", "--wait", `CALL memory_write {"scope": "chat", "content": "Anna likes tea. ${long}"}`);
await command("send", "--chat", "dead", "REFUSE this");
await command("send", "--chat", "child", `CALL agent_run {"prompt": "HANG on", "background": true}`);
await command("send", "--chat", "first", `CALL fs_write {"path": "notes/a.md", "content": "one line"}`);
const holds = async (what, ...args) => { for (let i = 0; !(await command(...args)).includes(what); i++) { if (i > 200) throw new Error(`${args}: never ${what}`); await new Promise((later) => setTimeout(later, 100)); } };
await holds('"id":1', "approvals", "list", "--json");
await command("approvals", "deny", "1");
await command("send", "--chat", "second", `CALL fs_write {"path": "notes/${long}.md", "content": "${long} ${long}"}`);
await holds('"id":2', "approvals", "list", "--json");
await command("tasks", "add", "--chat", "cli:" + long, "--daily", "08:30", "--name", long, "water the plants");
await holds("There is no such key", "dlq", "list", "--json");

// axe over every page.
const letter = JSON.parse((await command("dlq", "list", "--json")).split("\n")[0]);
const paths = ["/", "/chats", new URL(chat).pathname + "?view=full", "/chats/main:cli:local:second", "/approvals", "/deadletters", "/deadletters/" + letter.id,
  "/deadletters?action=replay", "/tasks", "/tasks/1", "/tasks/2", "/jobs", "/cost", "/health", "/audit", "/why", "/why?id=" + letter.messageId, "/channels", "/mcp",
  "/skills", "/memory", "/memory?chat=main:cli:local:memory", "/settings", "/nothing", "/#menu"];
const widths = process.env.SHORT ? [390] : [390, 1280], schemes = process.env.SHORT ? ["light"] : ["light", "dark"];
for (const width of widths) {
  await page.setViewportSize({ width, height: 860 });
  for (const path of paths) {
    await page.goto(base + path);
    await page.waitForTimeout(150);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(wide <= 0, `${path} is not wider than ${width}`);
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme });
      const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]).analyze();
      const serious = violations.filter((v) => v.impact === "serious" || v.impact === "critical");
      expect(serious.length === 0, `axe ${colorScheme} ${width} ${path}` + serious.map((v) => `\n      ${v.id}: ${v.nodes[0].target} ${v.nodes[0].failureSummary}`).join(""));
      if (shots) await page.screenshot({ path: `${shots}/${colorScheme}-${width}-${path.replace(/[^a-z0-9]+/gi, "_").slice(0, 30)}.png` });
    }
  }
}
expect(refused.length === 0, "the policy refuses nothing, and no script fails: " + refused.join(" | "));
expect(foreign.length === 0, "nothing is loaded from elsewhere: " + foreign.join(" "));
await browser.close();
process.exit(failures.length ? 1 : 0);

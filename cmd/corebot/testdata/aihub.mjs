// A client of the AIHub protocol, written from the page that describes that protocol and from nothing else. It needs
// Node without a package. Its one addition is the token, which AIHub does not have.
//
//   node aihub.mjs http://127.0.0.1:3211 TOKEN
//
// It prints what it has shown, one line for each step, and ends with an error at the first thing that is not as the
// page says. After the line KILL somebody kills the server and starts it again.
import crypto from "node:crypto";
import net from "node:net";

const [base, token] = process.argv.slice(2);
const { hostname, port } = new URL(base);
const patience = 60_000;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const fail = (text) => { throw new Error(text); };

// Socket is a websocket over TCP: as much of RFC 6455 as a client needs, and a way to cut it like a cable.
class Socket {
  constructor(onEvent, onClose) {
    this.onEvent = onEvent;
    this.onClose = onClose;
    this.bytes = Buffer.alloc(0);
  }

  open() {
    return new Promise((resolve, reject) => {
      this.tcp = net.connect(Number(port), hostname, () => {
        this.tcp.write(
          `GET /ws HTTP/1.1\r\nHost: ${hostname}:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
          `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${crypto.randomBytes(16).toString("base64")}\r\n` +
          `Authorization: Bearer ${token}\r\n\r\n`);
      });
      this.tcp.on("error", reject);
      this.tcp.on("close", () => { reject(new Error("closed")); if (this.opened) this.onClose?.(); });
      this.tcp.on("data", (data) => {
        this.bytes = Buffer.concat([this.bytes, data]);
        if (!this.opened) {
          const end = this.bytes.indexOf("\r\n\r\n");
          if (end < 0) return;
          const head = this.bytes.subarray(0, end).toString();
          if (!head.startsWith("HTTP/1.1 101")) return reject(new Error(head));
          this.bytes = this.bytes.subarray(end + 4);
          this.opened = true;
          resolve(this);
        }
        while (this.frame());
      });
    });
  }

  frame() {
    const b = this.bytes;
    if (b.length < 2) return false;
    let size = b[1] & 127, at = 2;
    if (size === 126) { if (b.length < 4) return false; size = b.readUInt16BE(2); at = 4; }
    else if (size === 127) { if (b.length < 10) return false; size = Number(b.readBigUInt64BE(2)); at = 10; }
    if (b.length < at + size) return false;
    const payload = b.subarray(at, at + size);
    this.bytes = b.subarray(at + size);
    const kind = b[0] & 15;
    if (kind === 1) this.onEvent(JSON.parse(payload.toString()));
    if (kind === 9) this.write(10, payload);
    return true;
  }

  write(kind, payload) {
    const mask = crypto.randomBytes(4), size = payload.length;
    const head = size < 126 ? Buffer.from([128 | kind, 128 | size]) : Buffer.from([128 | kind, 254, size >> 8, size & 255]);
    this.tcp.write(Buffer.concat([head, mask, Buffer.from(payload.map((c, i) => c ^ mask[i % 4]))]));
  }

  say(message) { this.write(1, Buffer.from(JSON.stringify(message))); }
  cut() { this.onClose = null; this.tcp.destroy(); }
}

async function api(method, path, body) {
  const answer = await fetch(base + path, {
    method, headers: { Authorization: `Bearer ${token}`, ...(body && { "Content-Type": "application/json" }) },
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) fail(`${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

// View is the chat view of the page: the history as it was fetched last, and the text that streams. It subscribes for
// live updates, fetches the history when it is told to, and connects again by itself.
class View {
  constructor(agent, sessionKey) {
    Object.assign(this, { agent, sessionKey, history: [], live: "", tools: [], events: [], dones: 0, updates: 0 });
  }

  async connect() {
    for (;;) {
      try {
        this.socket = await new Socket((e) => this.event(e), () => this.connect()).open();
        break;
      } catch { await sleep(100); }
    }
    this.live = "";
    this.socket.say({ type: "subscribe", agentId: this.agent, sessionKey: this.sessionKey });
    await this.fetch();
  }

  async fetch() {
    for (;;) {
      try {
        this.history = (await api("GET", `/api/agents/${this.agent}/history?sessionKey=${this.sessionKey}&view=simple`)).messages;
        return;
      } catch (err) {
        if (!/fetch failed|ECONN/.test(String(err) + String(err.cause))) throw err;
        await sleep(100); // the server is away: connect() goes on
      }
    }
  }

  event(e) {
    this.events.push(e);
    if (e.type === "text") this.live += e.data;
    if (e.type === "tool_start") this.tools.push(`+${e.toolName}`);
    if (e.type === "tool_end") this.tools.push(`-${e.toolName}${e.isError ? "!" : ""}`);
    if (e.type === "done") this.dones++;
    if (e.type === "history_updated") {
      if (e.agentId !== this.agent || !e.sessionId) fail(`an update lacks its names: ${JSON.stringify(e)}`);
      this.updates++;
      this.fetch().then(() => { this.live = ""; });
    }
  }

  // shown is everything on the screen.
  shown() { return [...this.history.map((m) => m.content), this.live].join("\n"); }
  count(text) { return this.shown().split(text).length - 1; }

  async until(what, condition) {
    for (const late = Date.now() + patience; !condition(); await sleep(20)) {
      if (Date.now() > late) fail(`${what} does not come: ${this.shown()}`);
    }
  }
}

// send is the mode for one message: it gives all that the server streams back, up to done or error.
async function send(message, watch) {
  const events = [];
  let resolve, reject;
  const over = new Promise((a, b) => { resolve = a; reject = b; });
  const socket = await new Socket((e) => {
    events.push(e);
    watch?.(e, socket);
    if (e.type === "done" || e.type === "error") resolve(events);
  }, () => reject(new Error("the socket ended before the message"))).open();
  socket.say({ type: "send", ...message });
  const late = setTimeout(() => reject(new Error(`no end: ${JSON.stringify(events)}`)), patience);
  await over;
  clearTimeout(late);
  socket.cut();
  return events;
}

const textOf = (events) => events.filter((e) => e.type === "text").map((e) => e.data).join("");

const agents = await api("GET", "/api/agents");
if (!JSON.stringify(agents).includes('"main"')) fail(`the agents are ${JSON.stringify(agents)}`);
await api("GET", "/api/agents/main/status");
console.log("agents");

const view = new View("main", "main");
await view.connect();

let events = await send({ agentId: "main", sessionKey: "main", message: "first question" });
if (textOf(events) !== "I have read it.") fail(`a message streams ${JSON.stringify(events)}`);
if (typeof events.at(-1).meta?.durationMs !== "number") fail(`done is ${JSON.stringify(events.at(-1))}`);
await view.until("the first answer", () => view.live === "" && view.count("I have read it.") === 1);
if (view.count("first question") !== 1) fail(`the question is shown as ${view.shown()}`);
console.log("sent and streamed");

events = await send({ agentId: "main", message: "LIST the files" }); // without sessionKey it is main
const tools = events.filter((e) => e.type.startsWith("tool_")).map((e) => `${e.type} ${e.toolName}`);
if (tools.join() !== "tool_start fs.search,tool_end fs.search") fail(`the tools are ${tools}`);
await view.until("the call on the view", () => view.tools.join() === "+fs.search,-fs.search");
await view.until("the answer behind it", () => view.live === "" && view.count("The call has ended.") === 1);
console.log("a tool was watched");

const result = await api("POST", "/api/agents/main/messages", { content: "by post", wait: 30 });
if (!JSON.stringify(result).includes("I have read it.")) fail(`a post gives ${JSON.stringify(result)}`);
await view.until("the answer to the post", () => view.live === "" && view.count("I have read it.") === 2);
console.log("posted");

events = await send({ agentId: "nobody", message: "x" });
if (events.at(-1).type !== "error" || !events.at(-1).message) fail(`an unknown agent gives ${JSON.stringify(events)}`);
console.log("refused");

// The cable is cut in the middle of an answer, while another socket has sent the question.
const end = "fifteen sixteen end";
let dones = view.dones;
send({ agentId: "main", message: "SLOW one" }).catch(() => {});
await view.until("the beginning", () => view.live.includes("three"));
view.socket.cut();
await view.connect();
await view.until("the rest after a cut", () => view.count(end) === 1 && view.live === "");
if (view.count("SLOW one") !== 1) fail(`after a cut it shows ${view.shown()}`);
console.log("went on after a cut");

// The server is killed in the middle of an answer.
send({ agentId: "main", message: "SLOW two" }).catch(() => {});
await view.until("the beginning", () => view.live.includes("three"));
console.log("KILL");
await view.until("the rest after a kill", () => view.count(end) === 2 && view.live === "");
if (view.count("SLOW two") !== 1 || view.count("first question") !== 1) fail(`after a kill it shows ${view.shown()}`);
console.log("went on after a kill");

events = await send({ agentId: "main", message: "/new" });
await send({ agentId: "main", message: "in a new session" });
await view.until("the new session", () => view.count("in a new session") === 1);
console.log("a new session");

view.socket.say({ type: "unsubscribe" });
await sleep(200);
const told = view.events.length;
await send({ agentId: "main", message: "unwatched" });
await sleep(500);
if (view.events.length !== told) fail(`after unsubscribe it is told ${JSON.stringify(view.events.slice(told, told + 3))}`);
view.socket.cut();

await api("GET", "/api/schedules");
const full = await api("GET", "/api/agents/main/history?sessionKey=main&view=full");
const blocks = full.messages.flatMap((m) => m.content);
const call = blocks.find((b) => b.type === "toolCall");
if (!call || call.name !== "fs.search" || call.arguments?.pattern !== ".") fail(`the calls are ${JSON.stringify(blocks)}`);
if (!full.messages.some((m) => m.role === "toolResult" && m.toolName === "fs.search" && m.isError === false)) {
  fail(`the results are ${JSON.stringify(full)}`);
}
if (!full.messages.some((m) => m.role === "assistant" && m.meta?.model === "scripted")) fail("no answer names its model");
console.log("OK");
process.exit(0); // timers of messages that were cut off are left

// A small debug adapter for Node, which runs in the jail: the Debug Adapter Protocol on standard input and
// output, the inspector protocol of V8 on a WebSocket to the program that it starts. Needs Node 18 or newer.
const { spawn } = require("node:child_process");
const { randomBytes } = require("node:crypto");
const http = require("node:http");
const os = require("node:os");
const path = require("node:path");
const { StringDecoder } = require("node:string_decoder");
const { fileURLToPath, pathToFileURL } = require("node:url");

const MAX_SHOWN = 500; // parts of a variable
const MAX_VALUE_CHARS = 4000;
const MAX_OUTPUT_CHARS = 16384; // of one event
const EVALUATE_TIMEOUT_MS = 20000;
const SCOPE_NAMES = { local: "Local", closure: "Closure", block: "Block", catch: "Catch", module: "Module", script: "Script", with: "With", eval: "Eval", "wasm-expression-stack": "Stack" };
const NOTICE = /^(Debugger listening on |For help, see: |Debugger attached\.|Debugger ending on |Waiting for the debugger to disconnect)/;

let sequence = 0;
function send(message) {
  const body = Buffer.from(JSON.stringify({ seq: ++sequence, ...message }));
  return process.stdout.write(Buffer.concat([Buffer.from(`Content-Length: ${body.length}\r\n\r\n`), body]));
}
const sendEvent = (event, body = {}) => send({ type: "event", event, body });

// --- the connection to the inspector: a WebSocket client with what V8 needs of the protocol ---

class Inspector {
  constructor(onEvent, onClose) {
    Object.assign(this, { onEvent, onClose, nextId: 0, waiting: new Map(), buffer: Buffer.alloc(0), parts: [] });
  }

  connect(url) {
    const { hostname, port, pathname } = new URL(url);
    const headers = { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": randomBytes(16).toString("base64") };
    return new Promise((resolve, reject) => {
      const request = http.get({ hostname, port, path: pathname, headers });
      request.on("error", reject);
      request.on("response", () => reject(new Error("The inspector refused the connection.")));
      request.on("upgrade", (_, socket, head) => {
        this.socket = socket;
        socket.on("data", (data) => this.read(data));
        socket.on("close", () => this.lose());
        socket.on("error", () => this.lose());
        this.read(head);
        resolve();
      });
    });
  }

  request(method, params = {}) {
    return new Promise((resolve, reject) => {
      if (!this.socket || this.socket.destroyed) return reject(new Error("The program has ended."));
      const id = ++this.nextId;
      this.waiting.set(id, { resolve, reject });
      this.frame(1, Buffer.from(JSON.stringify({ id, method, params })));
    });
  }

  frame(code, data) {
    const mask = randomBytes(4);
    const head = data.length < 126 ? Buffer.from([0x80 | code, 0x80 | data.length]) : Buffer.alloc(data.length < 65536 ? 4 : 10);
    if (data.length >= 126) {
      head[0] = 0x80 | code;
      head[1] = 0x80 | (data.length < 65536 ? 126 : 127);
      if (data.length < 65536) head.writeUInt16BE(data.length, 2);
      else head.writeBigUInt64BE(BigInt(data.length), 2);
    }
    const masked = Buffer.from(data);
    for (let i = 0; i < masked.length; i++) masked[i] ^= mask[i & 3];
    this.socket.write(Buffer.concat([head, mask, masked]));
  }

  read(data) {
    this.buffer = this.buffer.length ? Buffer.concat([this.buffer, data]) : data;
    for (;;) {
      if (this.buffer.length < 2) return;
      let length = this.buffer[1] & 0x7f;
      let start = 2;
      if (length === 126) {
        if (this.buffer.length < 4) return;
        length = this.buffer.readUInt16BE(2);
        start = 4;
      } else if (length === 127) {
        if (this.buffer.length < 10) return;
        length = Number(this.buffer.readBigUInt64BE(2));
        start = 10;
      }
      if (this.buffer.length < start + length) return;
      const [code, isLast, body] = [this.buffer[0] & 0xf, this.buffer[0] & 0x80, this.buffer.subarray(start, start + length)];
      this.buffer = this.buffer.subarray(start + length);
      if (code === 8) return this.socket.destroy();
      if (code === 9) this.frame(10, body);
      if (code > 2) continue;
      this.parts.push(body);
      if (!isLast) continue;
      const message = JSON.parse(Buffer.concat(this.parts.splice(0)).toString());
      const waiting = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.method) this.onEvent(message.method, message.params ?? {});
      else if (message.error) waiting?.reject(new Error(message.error.message));
      else waiting?.resolve(message.result);
    }
  }

  lose() {
    for (const { reject } of this.waiting.values()) reject(new Error("The program has ended."));
    this.waiting.clear();
    this.onClose();
  }
}

// --- the program ---

let child, inspector, stopOnEntry, isEntered = false, lastStep = "";
let callFrames = [];
const files = new Map(); // numbers of scripts: their addresses
let handles = new Map(); // our numbers of the objects of one stop
const breakpoints = new Map(); // paths: [{ id, number }]
let numbers = 0;

function launch({ program, args = [], nodeArgs = [], cwd, stopOnEntry: onEntry }) {
  stopOnEntry = onEntry;
  const env = { ...process.env };
  delete env.NODE_OPTIONS;
  child = spawn(process.execPath, ["--inspect-brk=127.0.0.1:0", ...nodeArgs, program, ...args], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  forward(child.stdout, "stdout");
  return new Promise((resolve, reject) => {
    let isFound = false;
    forward(child.stderr, "stderr", async (url) => {
      if (isFound) return;
      isFound = true;
      try {
        inspector = new Inspector(onInspectorEvent, () => {});
        await inspector.connect(url);
        await inspector.request("Runtime.enable");
        await inspector.request("Debugger.enable", { maxScriptsCacheSize: 10000000 });
        await inspector.request("Debugger.setBlackboxPatterns", { patterns: ["^node:", "/node_modules/"] });
        resolve();
        sendEvent("initialized");
      } catch (error) {
        reject(error);
      }
    });
    child.on("error", reject);
    child.on("close", (code, signal) => {
      reject(new Error("The program ended before it could be debugged."));
      sendEvent("exited", { exitCode: code ?? 128 + (os.constants.signals[signal] ?? 0) });
      sendEvent("terminated");
      process.stdout.end(() => process.exit(0));
    });
  });
}

/** Send what the program prints, at the pace at which it is read. Lines of the inspector are left out. */
function forward(stream, category, onAddress) {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  const print = (text) => {
    for (let at = 0; at < text.length; at += MAX_OUTPUT_CHARS) {
      const body = { category, output: text.slice(at, at + MAX_OUTPUT_CHARS) };
      if (!sendEvent("output", body)) {
        stream.pause();
        process.stdout.once("drain", () => stream.resume());
      }
    }
  };
  const take = (text) => {
    if (!onAddress) return print(text);
    const lines = (rest + text).split(/(?<=\n)/);
    rest = lines.length && !lines.at(-1).endsWith("\n") && lines.at(-1).length < 200 ? lines.pop() : "";
    let shown = "";
    for (const line of lines) {
      if (NOTICE.test(line)) {
        const found = /^Debugger listening on (ws:\/\/127\.0\.0\.1:\d+\/\S+)/.exec(line);
        if (found) onAddress(found[1]);
      } else shown += line;
    }
    print(shown);
  };
  stream.on("data", (data) => take(decoder.write(data)));
  stream.on("end", () => {
    take(decoder.end());
    if (rest && !NOTICE.test(rest)) print(rest);
    rest = "";
  });
}

function onInspectorEvent(method, params) {
  if (method === "Debugger.paused") onPaused(params);
  else if (method === "Debugger.scriptParsed") files.set(params.scriptId, params.url);
  else if (method === "Debugger.breakpointResolved") {
    for (const list of breakpoints.values()) {
      const found = list.find((each) => each.id === params.breakpointId);
      if (found) sendEvent("breakpoint", { reason: "changed", breakpoint: { id: found.number, verified: true, line: params.location.lineNumber + 1 } });
    }
  } else if (method === "Runtime.executionContextDestroyed" && params.executionContextId === 1) inspector.socket.destroy();
}

function onPaused({ callFrames: frames, reason, hitBreakpoints = [], data }) {
  const isEntry = !isEntered;
  isEntered = true;
  if (isEntry && !stopOnEntry && hitBreakpoints.length === 0) return void inspector.request("Debugger.resume").catch(() => {});
  callFrames = frames;
  handles = new Map();
  const isException = reason === "exception" || reason === "promiseRejection";
  const why = isException ? "exception" : hitBreakpoints.length > 0 ? "breakpoint" : isEntry ? "entry" : lastStep || "breakpoint";
  const text = isException ? String(data?.description ?? data?.value ?? "").slice(0, MAX_VALUE_CHARS) : "";
  sendEvent("stopped", { reason: why, text, threadId: 1, allThreadsStopped: true });
}

const toPath = (url) => {
  try {
    return url.startsWith("file:") ? fileURLToPath(url) : "";
  } catch {
    return "";
  }
};

function keep(object, name) {
  const number = handles.size + 1;
  handles.set(number, { object, name });
  return number;
}

/** A value as text, with the number that leads to its parts. */
function shown(remote) {
  if (!remote) return { value: "" };
  const text = remote.type === "string" ? JSON.stringify(remote.value) : remote.unserializableValue ?? (remote.objectId ? preview(remote) : String(remote.value));
  return { value: text.slice(0, MAX_VALUE_CHARS), type: remote.className ?? remote.subtype ?? remote.type, variablesReference: remote.objectId && remote.type !== "symbol" ? keep(remote.objectId) : 0 };
}

function preview(remote) {
  const description = (remote.description ?? remote.type).slice(0, MAX_VALUE_CHARS);
  const found = remote.preview;
  if (!found || remote.type === "function" || remote.subtype === "error" || remote.subtype === "date" || remote.subtype === "regexp") return description.split("\n")[0];
  const one = (each) => (each.type === "string" ? JSON.stringify(each.value) : each.value ?? each.type);
  if (found.entries) return `${description} {${found.entries.map(({ key, value }) => (key ? `${key.description} => ` : "") + (value.description ?? "")).join(", ")}}`;
  const parts = found.properties.map((each) => (remote.subtype === "array" ? one(each) : `${each.name}: ${one(each)}`));
  if (found.overflow) parts.push("…");
  return remote.subtype === "array" ? `${description} [${parts.join(", ")}]` : `${description === "Object" ? "" : `${description} `}{${parts.join(", ")}}`;
}

function frameOf(id) {
  const found = callFrames[id - 1];
  if (!found) throw new Error("There is no such frame.");
  return found;
}

const STEPS = { next: "Debugger.stepOver", stepIn: "Debugger.stepInto", stepOut: "Debugger.stepOut", continue: "Debugger.resume" };

async function step(command) {
  lastStep = command === "continue" ? "" : "step";
  callFrames = [];
  await inspector.request(STEPS[command]);
}

const requests = {
  initialize: () => ({ supportsConfigurationDoneRequest: true, supportsConditionalBreakpoints: true }),
  launch,
  async setBreakpoints({ source, breakpoints: wanted = [] }) {
    for (const each of breakpoints.get(source.path) ?? []) if (each.id) await inspector.request("Debugger.removeBreakpoint", { breakpointId: each.id });
    const list = [];
    const answers = [];
    for (const { line, condition = "" } of wanted) {
      const number = ++numbers;
      try {
        const url = pathToFileURL(source.path).href;
        const { breakpointId: id, locations } = await inspector.request("Debugger.setBreakpointByUrl", { lineNumber: line - 1, url, condition });
        list.push({ id, number });
        answers.push({ id: number, verified: locations.length > 0, line, message: "" });
      } catch (error) {
        answers.push({ id: number, verified: false, line, message: error.message });
      }
    }
    breakpoints.set(source.path, list);
    return { breakpoints: answers };
  },
  async setExceptionBreakpoints({ filters = [] }) {
    await inspector.request("Debugger.setPauseOnExceptions", { state: filters.includes("uncaught") ? "uncaught" : "none" });
  },
  async configurationDone() {
    await inspector.request("Runtime.runIfWaitingForDebugger");
  },
  threads: () => ({ threads: [{ id: 1, name: "main" }] }),
  stackTrace({ startFrame = 0, levels = 200 }) {
    const frames = callFrames.map((frame, index) => {
      const url = files.get(frame.location.scriptId) ?? frame.url ?? "";
      const file = toPath(url);
      return { id: index + 1, name: frame.functionName || "(anonymous)", line: frame.location.lineNumber + 1, column: frame.location.columnNumber + 1, source: { name: file ? path.basename(file) : url, path: file } };
    });
    const own = frames.filter((frame) => !frame.source.name.startsWith("node:"));
    return { stackFrames: (own.length ? own : frames).slice(startFrame, startFrame + levels), totalFrames: frames.length };
  },
  scopes({ frameId }) {
    const frame = frameOf(frameId);
    const scopes = frame.scopeChain.filter((scope) => scope.type !== "global" && scope.object.objectId);
    const found = scopes.map((scope) => ({ name: SCOPE_NAMES[scope.type] ?? scope.type, variablesReference: keep(scope.object.objectId) }));
    if (frame.this?.objectId) found.push({ name: "this", variablesReference: keep(frame.this.objectId) });
    return { scopes: found };
  },
  async variables({ variablesReference }) {
    const known = handles.get(variablesReference);
    if (!known) throw new Error("There is no such variable.");
    const { result, internalProperties = [] } = await inspector.request("Runtime.getProperties", { objectId: known.object, ownProperties: true, generatePreview: true });
    const own = result.filter((each) => each.value || each.get).slice(0, MAX_SHOWN);
    const variables = own.map((each) => ({ name: each.name, ...(each.value ? shown(each.value) : { value: "(getter)", variablesReference: 0 }) }));
    for (const each of internalProperties.slice(0, 20)) if (each.name === "[[Entries]]" || each.name === "[[PromiseState]]" || each.name === "[[PromiseResult]]") variables.push({ name: each.name, ...shown(each.value) });
    return { variables };
  },
  async evaluate({ expression, frameId }) {
    const { result, exceptionDetails } = await inspector.request("Debugger.evaluateOnCallFrame", { callFrameId: frameOf(frameId).callFrameId, expression, generatePreview: true, timeout: EVALUATE_TIMEOUT_MS });
    if (exceptionDetails) throw new Error((exceptionDetails.exception?.description ?? exceptionDetails.text ?? "").split("\n")[0] || "The expression failed.");
    const { value, ...rest } = shown(result);
    return { result: value, ...rest };
  },
  next: () => step("next"),
  stepIn: () => step("stepIn"),
  stepOut: () => step("stepOut"),
  continue: () => step("continue"),
  async pause() {
    lastStep = "pause";
    await inspector.request("Debugger.pause");
  },
};

async function handle({ seq, command, arguments: given = {} }) {
  const answer = { type: "response", request_seq: seq, command };
  try {
    if (!Object.hasOwn(requests, command)) throw new Error(`'${command}' is not supported.`);
    send({ ...answer, success: true, body: (await requests[command](given)) ?? {} });
  } catch (error) {
    send({ ...answer, success: false, message: error.message });
  }
}

let input = Buffer.alloc(0);
process.stdin.on("data", (data) => {
  input = Buffer.concat([input, data]);
  for (;;) {
    const end = input.indexOf("\r\n\r\n");
    const length = end < 0 ? NaN : Number(/Content-Length: (\d+)/i.exec(input.subarray(0, end).toString())?.[1]);
    if (Number.isNaN(length) || input.length < end + 4 + length) return;
    void handle(JSON.parse(input.subarray(end + 4, end + 4 + length).toString()));
    input = input.subarray(end + 4 + length);
  }
});
process.stdin.on("end", () => {
  child?.kill("SIGKILL");
  process.exit(0);
});
process.on("uncaughtException", (error) => {
  process.stderr.write(`${error.message}\n`);
  child?.kill("SIGKILL");
  process.exit(1);
});

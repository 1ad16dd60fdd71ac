// A terminal in a session's jail, in a terminal of VS Code. It reconnects, and continues where the output stopped.
import * as vscode from "vscode";
import WebSocket from "ws";
import type { Schemas } from "../../../clients/typescript/src/index";
import type { Connection } from "./connection";
import { MAX_FRAME_BYTES, RETRY_MS } from "./limits";
import { plainText } from "./untrusted_text";
import { problemText } from "./problem_text";
import { sessionName } from "./session_format";
import type { Listed } from "./session_list";
import { TerminalFilter } from "./terminal_filter";

const MAX_INPUT_BYTES = 64 << 10;
const MAX_SIDE = 1000;
const ENDED = 1000;
const REFUSED = 4403;
type Frame =
  | { type: "hello"; seq: number; missed_bytes: number; writes: boolean }
  | { type: "error"; code: string; detail: string }
  | { type: "exit"; exit_code: number | null }
  | { type: "writer" | "pong" };

export class SessionTerminal implements vscode.Pseudoterminal {
  private readonly written = new vscode.EventEmitter<string>();
  private readonly closed = new vscode.EventEmitter<number>();
  readonly onDidWrite = this.written.event;
  readonly onDidClose = this.closed.event;
  private socket: WebSocket | null = null;
  private timer: NodeJS.Timeout | undefined;
  private attempts = 0;
  private seq: number | null = null; // of the next byte
  private exitCode: number | undefined;
  private isClosed = false;
  private size = { columns: 80, rows: 24 };
  private readonly decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  private readonly filter = new TerminalFilter();

  /** Without the id of a terminal, open a new one, which is closed with its tab. */
  constructor(private readonly connection: Connection, private readonly session: string, private id = "") {
    this.isOurs = id === "";
  }

  private readonly isOurs: boolean;

  open(size: vscode.TerminalDimensions | undefined): void {
    if (size) this.size = clamped(size);
    void this.begin();
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
    this.socket?.close();
    if (this.isOurs && this.id && this.exitCode === undefined) {
      this.connection.send("DELETE", this.path).catch((error: unknown) => void vscode.window.showWarningMessage(problemText(error)));
    }
  }

  handleInput(typed: string): void {
    const bytes = Buffer.from(typed, "utf8");
    for (let start = 0; start < bytes.length; start += MAX_INPUT_BYTES) this.put(bytes.subarray(start, start + MAX_INPUT_BYTES));
  }

  setDimensions(size: vscode.TerminalDimensions): void {
    this.size = clamped(size);
    this.put(JSON.stringify({ type: "resize", ...this.size }));
  }

  private get path(): string {
    return `/sessions/${this.session}/terminals/${encodeURIComponent(this.id)}`;
  }

  private async begin(): Promise<void> {
    try {
      if (!this.id) this.id = (await this.connection.request<Schemas["Terminal"]>("POST", `/sessions/${this.session}/terminals`, this.size)).id;
      if (this.isClosed) return this.close(); // its tab was closed meanwhile
      this.connect();
    } catch (error) {
      this.end(problemText(error));
    }
  }

  private connect(): void {
    const { url, headers } = this.connection.socket(`/api/v1${this.path}/socket${this.seq === null ? "" : `?resume=${this.seq}`}`);
    const socket = new WebSocket(url, { headers, maxPayload: MAX_FRAME_BYTES });
    this.socket = socket;
    let refusal = "";
    socket.on("message", (data: Buffer, isBinary) => this.receive(data, isBinary));
    socket.on("unexpected-response", (request, response) => {
      if ((response.statusCode ?? 500) < 500) refusal = "This terminal has ended, or you may not use it.";
      request.destroy();
    });
    socket.on("error", () => undefined); // "close" follows
    socket.on("close", (code) => {
      if (this.isClosed) return;
      if (code === ENDED || refusal) return this.end(refusal);
      if (code === REFUSED) return this.end("You may no longer use this terminal.");
      if (this.attempts === 0) this.say("The connection is lost. Connecting again…");
      this.timer = setTimeout(() => this.connectAgain(), RETRY_MS[Math.min(this.attempts, RETRY_MS.length - 1)]);
      this.attempts += 1;
    });
  }

  private connectAgain(): void {
    try {
      this.connect();
    } catch (error) {
      this.end(problemText(error)); // signed out
    }
  }

  private receive(data: Buffer, isBinary: boolean): void {
    if (isBinary) {
      this.seq = (this.seq ?? 0) + data.length;
      this.written.fire(this.filter.pass(this.decoder.decode(data, { stream: true })));
      this.put(JSON.stringify({ type: "ack", bytes: data.length }));
      return;
    }
    const frame = JSON.parse(data.toString("utf8")) as Frame;
    if (frame.type === "hello") {
      if (this.attempts > 0) this.say("Connected.");
      if (frame.missed_bytes > 0 && this.seq !== null) this.say(`${frame.missed_bytes} bytes of output are gone.`);
      if (!frame.writes) this.say("You may only watch this terminal.");
      this.attempts = 0;
      this.seq = frame.seq;
      this.put(JSON.stringify({ type: "resize", ...this.size }));
    } else if (frame.type === "exit") this.exitCode = frame.exit_code ?? 1;
    else if (frame.type === "error") this.say(plainText(frame.detail));
  }

  private put(frame: string | Buffer): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(frame);
  }

  private say(text: string): void {
    this.written.fire(`\r\n\u001b[2m[hutch] ${text}\u001b[0m\r\n`);
  }

  private end(reason = ""): void {
    if (this.isClosed) return;
    this.isClosed = true;
    if (reason) void vscode.window.showErrorMessage(reason);
    this.closed.fire(this.exitCode ?? 0);
  }
}

const clamped = ({ columns, rows }: vscode.TerminalDimensions) => ({
  columns: Math.min(Math.max(columns, 1), MAX_SIDE),
  rows: Math.min(Math.max(rows, 1), MAX_SIDE),
});

/** Open a new terminal of a session, or one that is open there already. */
export async function openTerminal(connection: Connection, { row }: Listed): Promise<void> {
  const { items } = await connection.request<Schemas["Terminals"]>("GET", `/sessions/${row.id}/terminals`);
  const running = items.filter((each) => !each.ended);
  let id = "";
  if (running.length > 0) {
    const choices = [{ label: "A new terminal", id: "" }, ...running.map((each) => ({ label: `Terminal ${plainText(each.id, 60)}`, description: `${each.viewers} watching`, id: each.id }))];
    const picked = await vscode.window.showQuickPick(choices, { title: `Terminals of ${sessionName(row)}` });
    if (!picked) return;
    id = picked.id;
  }
  const pty = new SessionTerminal(connection, row.id, id);
  vscode.window.createTerminal({ name: `Hutch: ${sessionName(row)}`, pty, iconPath: new vscode.ThemeIcon("shield") }).show();
}

// One terminal: bytes by WebSocket, acknowledged when they were shown, resumed where they stopped.
import type { Terminal } from "@xterm/xterm";
import { watchSocket } from "../../../api/socket_watch";
import { strings } from "../../../strings";

const ACK_BYTES = 128 * 1024; // a quarter of what the server sends ahead: fewer cost less, and it never waits for one
const RETRY_MS = [300, 1000, 2000, 4000, 8000];

export type Writer = { mode: string; name: string; agent: boolean; you: boolean };
export type TerminalStatus = { connected: boolean; writer: Writer | null; missedBytes: number; exit: number | null | undefined; limit: string; refused: string };

export class TerminalConnection {
  status: TerminalStatus = { connected: false, writer: null, missedBytes: 0, exit: undefined, limit: "", refused: "" };
  private socket: WebSocket | null = null;
  private seq = -1; // the number of the next byte; -1 before the first hello
  private shown = 0;
  private attempts = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;

  constructor(private readonly path: string, private readonly screen: Terminal, private readonly notify: () => void) {
    this.connect();
  }

  private updateStatus(part: Partial<TerminalStatus>): void {
    this.status = { ...this.status, ...part };
    this.notify();
  }

  private connect(): void {
    if (this.closed) return;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/api/v1${this.path}/socket?resume=${Math.max(0, this.seq)}`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.shown = 0;
    socket.onmessage = (message) => (message.data instanceof ArrayBuffer ? this.print(socket, new Uint8Array(message.data)) : this.control(JSON.parse(String(message.data)) as Record<string, unknown>));
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.updateStatus({ connected: false });
      if (this.closed || event.code === 1000 || event.code === 4403) return;
      const wait = RETRY_MS[Math.min(this.attempts, RETRY_MS.length - 1)] ?? 8000;
      this.attempts += 1;
      this.timer = setTimeout(() => this.connect(), wait);
    };
    watchSocket(socket, () => this.sendJson({ type: "ping" }));
  }

  private print(socket: WebSocket, data: Uint8Array): void {
    this.seq += data.length;
    this.screen.write(data, () => {
      this.shown += data.length;
      if (this.shown >= ACK_BYTES && this.socket === socket) {
        this.sendJson({ type: "ack", bytes: this.shown });
        this.shown = 0;
      }
    });
  }

  private control(frame: Record<string, unknown>): void {
    if (frame["type"] === "hello") {
      this.attempts = 0;
      this.seq = Number(frame["seq"]);
      this.updateStatus({ connected: true, missedBytes: Number(frame["missed_bytes"]), refused: "" });
      this.resize();
    } else if (frame["type"] === "writer") {
      this.updateStatus({ writer: frame as unknown as Writer, refused: "" });
    } else if (frame["type"] === "exit") {
      this.updateStatus({ exit: (frame["exit_code"] as number | null) ?? null, limit: String(frame["limit"] ?? "") });
    } else if (frame["type"] === "error") {
      this.updateStatus({ refused: String(frame["detail"]) });
    }
  }

  private sendJson(frame: Record<string, unknown>): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  type(text: string): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(new TextEncoder().encode(text));
    else if (this.status.exit === undefined) this.updateStatus({ refused: strings.terminal.notSent }); // a shell would run it later
  }

  resize(): void {
    this.sendJson({ type: "resize", columns: this.screen.cols, rows: this.screen.rows });
  }

  takeOver = () => this.sendJson({ type: "take_over" });
  share = () => this.sendJson({ type: "share" });

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }
}

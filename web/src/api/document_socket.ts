// All open files of a session page over one socket. It numbers them, reconnects by itself, and opens them again.
// It knows nothing of Yjs, so the page can show unsent changes before the editor is loaded.
import { strings } from "../strings";
import { Problem, send } from "./http_client";
import { watchSocket } from "./socket_watch";

const RETRY_S = [0.5, 1, 2, 4, 8, 15];
const MAX_REFUSED_HANDSHAKES = 3; // by a server that answers otherwise: a browser cannot read the reason

export type Opened = { epoch: string; state: string; writes: boolean; reason: string };
export type CursorFrame = { peer: number; user: string; name: string; position: unknown };
type Frame = { type: string; document?: number } & Record<string, unknown>;

/** One open file. The socket calls it; `number` is its own while it is attached. */
export interface OpenFile {
  readonly path: string;
  readonly waits: boolean; // something was typed that the server has not confirmed
  known(): { epoch: string; state: string };
  opened(frame: Opened): void;
  updated(update: Uint8Array): void;
  cursor(frame: CursorFrame): void;
  news(kind: "saved" | "unsaved" | "deleted", detail: string): void;
  refused(code: string, detail: string): void;
  lost(): void;
}

export type ChannelStatus = "idle" | "connecting" | "live" | "down" | "refused";

export class DocumentChannel {
  status: ChannelStatus = "idle";
  version = 0;
  private socket: WebSocket | null = null;
  private files = new Map<number, OpenFile>();
  private pings: (() => void)[] = [];
  private listeners = new Set<() => void>();
  private opened = new Set<number>(); // at the server, each path once
  private lastNumber = 0;
  private attempts = 0;
  private refusals = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly session: string) {}

  /** The number of files with text that only this browser has. */
  get waiting(): number {
    return new Set([...this.files.values()].filter((each) => each.waits).map((each) => each.path)).size;
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  notify = (): void => {
    this.version += 1;
    for (const listener of this.listeners) listener();
  };

  /** Reconnect when the browser is online again. Returns a function that stops this. */
  watch(): () => void {
    const wake = () => {
      if (this.status === "down" && !document.hidden) this.retryNow();
    };
    window.addEventListener("online", wake);
    window.addEventListener("focus", wake);
    document.addEventListener("visibilitychange", wake);
    return () => {
      window.removeEventListener("online", wake);
      window.removeEventListener("focus", wake);
      document.removeEventListener("visibilitychange", wake);
      this.disconnect();
    };
  }

  retryNow = (): void => {
    clearTimeout(this.timer);
    this.attempts = 0;
    this.refusals = 0;
    if (!this.socket && this.files.size) this.connect();
  };

  attach(file: OpenFile): number {
    this.lastNumber += 1;
    this.files.set(this.lastNumber, file);
    if (this.status === "live") this.open(this.lastNumber, file);
    else if (this.status === "idle") this.connect();
    return this.lastNumber;
  }

  /** Close a file at the server. The socket goes with the last one. */
  detach(number: number): void {
    if (!this.files.delete(number)) return;
    if (this.opened.delete(number)) this.put("close", number);
    for (const [next, file] of this.files) this.open(next, file); // one that waited for its path
    if (!this.files.size) this.disconnect();
    this.notify();
  }

  // Each returns false if there is no connection to send it over.

  sendUpdate(number: number, update: Uint8Array): boolean {
    if (!this.isOpen) return false;
    const frame = new Uint8Array(4 + update.length);
    new DataView(frame.buffer).setUint32(0, number);
    frame.set(update, 4);
    this.socket?.send(frame);
    return true;
  }

  put(type: string, number: number, fields: object = {}): boolean {
    if (!this.isOpen) return false;
    this.socket?.send(JSON.stringify({ type, document: number, ...fields }));
    return true;
  }

  /** `then` is called when the server has handled all frames sent before. It is not if the connection breaks. */
  confirm(then: () => void): boolean {
    if (!this.isOpen) return false;
    this.pings.push(then);
    this.socket?.send('{"type":"ping"}');
    return true;
  }

  private get isOpen(): boolean {
    return this.status === "live" && this.socket?.readyState === WebSocket.OPEN;
  }

  private open(number: number, file: OpenFile): void {
    if (!this.isOpen || [...this.opened].some((other) => this.files.get(other)?.path === file.path)) return;
    const { epoch, state } = file.known();
    this.opened.add(number);
    this.put("open", number, { path: file.path, ...(epoch ? { epoch, state } : {}) });
  }

  private connect(): void {
    if (this.socket) return;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/api/v1/sessions/${this.session}/documents/socket`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.pings = [];
    this.opened.clear();
    if (this.status === "idle") this.become("connecting");
    let wasOpen = false;
    socket.onopen = () => {
      wasOpen = true;
      this.attempts = this.refusals = 0;
      this.become("live");
      for (const [number, file] of this.files) this.open(number, file);
    };
    socket.onmessage = (message: MessageEvent<string | ArrayBuffer>) => this.receive(message.data);
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.pings = [];
      if (event.code === 4403) return this.refuse();
      this.become("down");
      for (const file of this.files.values()) file.lost();
      void this.again(wasOpen, event.code === 4408);
    };
    watchSocket(socket, () => this.confirm(() => undefined));
  }

  private async again(wasOpen: boolean, now: boolean): Promise<void> {
    if (!wasOpen && (await this.isServerThere())) {
      this.refusals += 1;
      if (this.refusals >= MAX_REFUSED_HANDSHAKES) return this.refuse();
    }
    if (this.socket || this.status !== "down") return;
    const wait = RETRY_S[Math.min(this.attempts, RETRY_S.length - 1)] ?? 15;
    this.attempts += 1;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), now ? 0 : wait * 1000 * (0.8 + Math.random() * 0.4));
  }

  private async isServerThere(): Promise<boolean> {
    try {
      await send(`/sessions/${this.session}`);
      return true;
    } catch (error) {
      return error instanceof Problem && error.status > 0 && error.status < 500;
    }
  }

  private refuse(): void {
    this.become("refused");
    for (const file of this.files.values()) {
      file.lost();
      file.refused("denied", strings.panel.noDocuments);
    }
  }

  private disconnect(): void {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.become("idle");
  }

  private become(status: ChannelStatus): void {
    if (this.status === status) return;
    this.status = status;
    this.notify();
  }

  private receive(data: string | ArrayBuffer): void {
    if (typeof data !== "string") {
      this.files.get(new DataView(data).getUint32(0))?.updated(new Uint8Array(data, 4));
      return;
    }
    const frame = JSON.parse(data) as Frame;
    if (frame.type === "pong") return this.pings.shift()?.();
    const file = frame.document === undefined ? undefined : this.files.get(frame.document);
    if (!file) return;
    switch (frame.type) {
      case "opened": return file.opened(frame as unknown as Opened);
      case "cursor": return file.cursor(frame as unknown as CursorFrame);
      case "error": return file.refused(String(frame["code"]), String(frame["detail"]));
      case "saved": case "unsaved": case "deleted": return file.news(frame.type, String(frame["detail"] ?? ""));
    }
  }
}

// Follows one session: socket -> queue -> one fold and one notice per frame. It reconnects by itself and says the truth
// about the connection.
//
// A long session begins at its end: with the view that this browser has stored, or with its last events while a worker
// folds all of them.
import { Fold } from "../fold/fold";
import { type KnownState, foldEnd } from "../fold/partial_log";
import type { AnyEntry, Delta, Row, View } from "../fold/view_types";
import type { Folded } from "../fold/whole_log";
import { type Input, Problem, get, send } from "./http_client";
import { LogEntries } from "./log_entry_window";
import { OlderRows } from "./older_conversation_rows";
import { dropView, readView, storeView } from "./stored_folds";
import { foldInWorker } from "./fold_in_worker";
import { watchSocket } from "./socket_watch";
import { workAfterKeys } from "./work_after_keys";

const MAX_FOLLOWED_EVENTS = 2000; // a longer log is not read over the socket
const END_EVENTS = 500;
const MIN_STORED_EVENTS = 500;
const STORE_EVERY_EVENTS = 2000;
const RETRY_S = [0.5, 1, 2, 4, 8, 15];
const HIDDEN_MS = 250;
// How long frames may wait for others, so that typing stays quick meanwhile: parts of a reply and output of commands are
// shown ten times a second. Terminals show their output themselves; their events are for the log.
const DELTA_MS = 100;
const OUTPUT_MS: Record<string, number> = { "shell.printed": DELTA_MS, "terminal.printed": 500, "terminal.typed": 500 };
const FLUSH_AGAIN_MS = 3000;
const ANSWER_TIMEOUT_MS = 20_000; // a request on a connection that died without a word; its key makes a repetition safe

export type Connection = { status: "connecting" | "live" | "down" | "restarting" | "refused" | "ended"; lastReceivedMs: number; downSinceMs: number; waiting: number };
/** The state of the session that the page knows before it reads the log. */
export type Start = KnownState & { user: string; head: number; erased: number };
type Page = { items: (AnyEntry & { hash: string })[] };
type Frame = ({ type: "entry"; hash: string } & AnyEntry) | ({ type: "delta" } & Delta) | { type: "heartbeat" | "pong" | "ack" | "error" | "end" };
type UnsentInput = { key: string; input: Input };

export class SessionStream {
  private fold = new Fold();
  private socket: WebSocket | null = null;
  private queue: Frame[] = [];
  private scheduled = false;
  private drainTimer: ReturnType<typeof setTimeout> | undefined;
  private drainAtMs = 0; // when the timer fires
  private drainedMs = 0;
  private listeners = new Set<() => void>();
  private attempts = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;
  private flushing = false;
  version = 0;
  isLoaded = false;
  sent = 0; // inputs that the server has taken from here
  refusal: unknown = null; // of an input for which no form waits
  refusedText = ""; // of a message that was sent late: the message field takes it back
  readonly entries: LogEntries;
  isWhole = false; // the view is of the whole log, not of its end only
  readonly older: OlderRows;
  connection: Connection = { status: "connecting", lastReceivedMs: Date.now(), downSinceMs: 0, waiting: 0 };

  private start: Start | null = null;
  private failures = 0; // to fold the whole log
  private storedSeq = 0; // of the view in the database
  private hash = ""; // of the newest event
  private deltas: Delta[] = []; // of the reply at work, while the log is read
  private stopFolding: () => void = () => undefined;

  constructor(readonly id: string) {
    this.entries = new LogEntries(id, () => this.notify());
    this.older = new OlderRows(id, () => this.fold, () => this.notify());
    this.connection = { ...this.connection, waiting: this.readUnsent().length };
  }

  get view(): View {
    return this.fold.view;
  }

  row(id: string) {
    return this.fold.row(id);
  }

  /** All rows that are here: those that a reader scrolled to, and those of the view. */
  get rows(): readonly Row[] {
    return this.older.before(this.view.rows);
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  open(start: Start): () => void {
    this.closed = false;
    void this.begin(start).then(() => this.connect());
    const wake = () => {
      void this.flushLater();
      if (this.connection.status === "down" || this.connection.status === "restarting") this.retryNow();
    };
    window.addEventListener("online", wake);
    window.addEventListener("focus", wake);
    document.addEventListener("visibilitychange", wake);
    const leave = () => this.store(MIN_STORED_EVENTS);
    window.addEventListener("pagehide", leave);
    return () => {
      this.closed = true;
      leave();
      window.removeEventListener("pagehide", leave);
      this.stopFolding();
      clearTimeout(this.timer);
      this.socket?.close();
      this.socket = null;
      window.removeEventListener("online", wake);
      window.removeEventListener("focus", wake);
      document.removeEventListener("visibilitychange", wake);
    };
  }

  /** Begin with the stored view, or with the end of the log. */
  private async begin(start: Start): Promise<void> {
    if (this.start) return;
    this.start = start;
    this.isWhole = true;
    if (start.head < MIN_STORED_EVENTS) return;
    try {
      const stored = await this.restored(start);
      if (start.head - (stored?.view.seq ?? 0) <= MAX_FOLLOWED_EVENTS) {
        if (!stored) return;
        this.fold = stored;
        this.isLoaded = true;
        return this.notify();
      }
      await this.beginAtEnd(start, stored);
    } catch { // the log is read from its beginning
      this.fold = new Fold();
      this.isWhole = true;
    }
  }

  private get key(): string {
    return `${this.start?.user ?? ""}/${this.id}`;
  }

  /** The stored fold, if the log is still the one that it was made of. */
  private async restored(start: Start): Promise<Fold | null> {
    const stored = await readView(this.key);
    if (!stored) return null;
    const isUsable = stored.erased === start.erased;
    const { items } = isUsable ? await get<Page>(`/sessions/${this.id}/events?before=${stored.seq + 1}&limit=${END_EVENTS}`) : { items: [] };
    const last = items.at(-1);
    const fold = last?.seq === stored.seq && last.hash === stored.hash ? Fold.restored(stored.fold) : null;
    if (!fold) {
      await dropView(this.key);
      return null;
    }
    this.entries.list = items;
    this.storedSeq = stored.seq;
    this.hash = stored.hash;
    return fold;
  }

  private async beginAtEnd(start: Start, stored: Fold | null): Promise<void> {
    const { items } = await get<Page>(`/sessions/${this.id}/events?before=${start.head + 1}&limit=${END_EVENTS}`);
    if (this.closed) return;
    this.fold = foldEnd(items, start);
    this.entries.list = items;
    this.hash = items.at(-1)?.hash ?? "";
    this.isWhole = false;
    this.isLoaded = true;
    this.notify();
    this.foldWhole(start.head, stored);
  }

  private foldWhole(until: number, from: Fold | null): void {
    this.stopFolding = foldInWorker({ session: this.id, until, from: from?.save() ?? null }, (folded) => this.takeWhole(until, folded));
  }

  /** Continue with the fold of the whole log, and with the entries that arrived meanwhile. */
  private takeWhole(until: number, folded: Folded): void {
    const whole = "fold" in folded ? Fold.restored(folded.fold) : null;
    if (!whole) {
      this.failures += 1;
      setTimeout(() => !this.closed && this.foldWhole(until, null), FLUSH_AGAIN_MS * 2 ** Math.min(this.failures, 8));
      return;
    }
    const since = this.entries.list.filter((entry) => entry.seq > whole.view.seq);
    if (since[0] && since[0].seq !== whole.view.seq + 1) return this.foldWhole(this.view.seq, whole);
    whole.entries(since);
    for (const delta of this.deltas) whole.delta(delta, Date.now());
    this.deltas = [];
    this.fold = whole;
    this.isWhole = true;
    this.notify();
    this.storeSoon();
  }

  private storeSoon(): void {
    const idle = window.requestIdleCallback ?? ((work: () => void) => setTimeout(work, 200));
    idle(() => this.store(STORE_EVERY_EVENTS));
  }

  /** Store the view if it has so many events more than the stored one. */
  private store(events: number): void {
    const { start } = this;
    const { seq } = this.view;
    if (!start || !this.isWhole || !this.hash || this.queue.length > 0 || seq < MIN_STORED_EVENTS || seq - this.storedSeq < events) return;
    this.storedSeq = seq;
    void storeView(() => ({ key: this.key, seq: this.view.seq, hash: this.hash, erased: start.erased, atMs: Date.now(), fold: this.fold.save() }));
  }

  retryNow = (): void => {
    clearTimeout(this.timer);
    this.attempts = 0;
    if (!this.socket) this.connect();
  };

  private connect(): void {
    if (this.closed || this.socket) return;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const last = this.queue.findLast((frame): frame is { type: "entry"; hash: string } & AnyEntry => frame.type === "entry");
    const after = last?.seq ?? this.view.seq;
    const socket = new WebSocket(`${scheme}://${location.host}/api/v1/sessions/${this.id}/events/socket?after=${after}`);
    this.socket = socket;
    socket.onopen = () => {
      this.attempts = 0;
      this.updateConnection({ status: "live", lastReceivedMs: Date.now(), downSinceMs: 0 });
      void this.flushLater();
    };
    socket.onmessage = (message) => {
      const frame = JSON.parse(String(message.data)) as Frame;
      this.queue.push(frame);
      this.schedule(frame.type === "delta" ? DELTA_MS : frame.type === "entry" ? OUTPUT_MS[frame.event.type] ?? 0 : 0);
    };
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      this.socket = null;
      if (event.code === 1000) return this.updateConnection({ status: "ended" });
      if (event.code === 4403) return this.updateConnection({ status: "refused" });
      this.again(event.code === 1012 ? "restarting" : "down", event.code === 4408);
    };
    watchSocket(socket, () => socket.send('{"type":"ping"}'));
  }

  private again(status: "down" | "restarting", now = false): void {
    if (this.closed) return;
    this.updateConnection({ status, downSinceMs: this.connection.downSinceMs || Date.now() });
    const wait = RETRY_S[Math.min(this.attempts, RETRY_S.length - 1)] ?? 15;
    this.attempts += 1;
    this.timer = setTimeout(() => this.connect(), now ? 0 : wait * 1000 * (0.8 + Math.random() * 0.4));
  }

  private updateConnection(part: Partial<Connection>): void {
    this.connection = { ...this.connection, ...part };
    this.notify();
  }

  private notify(): void {
    this.version += 1;
    for (const listener of this.listeners) listener();
  }

  /** Show the queue with the next frame, or, if that may wait, so long after it was shown last. */
  private schedule(maxWaitMs: number): void {
    if (this.scheduled) return;
    if (maxWaitMs > 0 && !document.hidden) {
      const now = Date.now();
      const atMs = Math.max(now, this.drainedMs + maxWaitMs);
      if (this.drainTimer !== undefined && this.drainAtMs <= atMs) return;
      clearTimeout(this.drainTimer);
      this.drainAtMs = atMs;
      this.drainTimer = setTimeout(() => workAfterKeys.add(() => this.queue.length > 0 && !this.scheduled && this.drain()), atMs - now);
      return;
    }
    this.scheduled = true;
    const work = () => {
      this.scheduled = false;
      this.drain();
    };
    if (document.hidden) setTimeout(work, HIDDEN_MS);
    else requestAnimationFrame(work);
  }

  private drain(): void {
    clearTimeout(this.drainTimer);
    this.drainTimer = undefined;
    const frames = this.queue;
    this.queue = [];
    const now = (this.drainedMs = Date.now());
    for (const frame of frames) {
      if (frame.type === "entry") {
        this.fold.entry(frame);
        this.hash = frame.hash;
        this.entries.add(frame);
        if (!this.isWhole && frame.event.type === "model.replied") this.deltas = [];
      } else if (frame.type === "delta") {
        this.fold.delta(frame, now);
        if (!this.isWhole) this.deltas.push(frame);
      } else if (frame.type === "end") {
        this.connection = { ...this.connection, status: "ended" };
      }
    }
    this.entries.trim();
    this.isLoaded = true;
    this.connection = { ...this.connection, lastReceivedMs: now };
    this.notify();
    if (this.view.seq - this.storedSeq >= STORE_EVERY_EVENTS) this.storeSoon();
  }

  // Inputs are stored until the server has them, each with an idempotency key.

  private readUnsent(): UnsentInput[] {
    try {
      return JSON.parse(localStorage.getItem(`hutch.inputs.${this.id}`) ?? "[]") as UnsentInput[];
    } catch {
      return [];
    }
  }

  private storeUnsent(list: UnsentInput[]): void {
    if (list.length) localStorage.setItem(`hutch.inputs.${this.id}`, JSON.stringify(list));
    else localStorage.removeItem(`hutch.inputs.${this.id}`);
    this.updateConnection({ waiting: list.length });
  }

  get unsent(): Input[] {
    return this.readUnsent().map((each) => each.input);
  }

  /** Send an input. Without a connection it is stored and sent later; a refusal is an error. */
  async give(input: Input): Promise<void> {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    const key = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    this.storeUnsent([...this.readUnsent(), { key, input }]);
    await this.flush();
  }

  /** Send an input for which no form waits. A refusal appears above the message field. */
  request(input: Input): void {
    this.give(input).catch((error: unknown) => this.report(error));
  }

  report(error: unknown): void {
    this.refusal = error;
    this.notify();
  }

  private async flushLater(): Promise<void> {
    if (this.connection.waiting === 0) return;
    try {
      await this.flush(true);
    } catch (error) {
      this.report(error);
      setTimeout(() => void this.flushLater(), FLUSH_AGAIN_MS); // those that were sent after it
    }
  }

  private async flush(isLate = false): Promise<void> {
    if (this.flushing) return;
    this.flushing = true;
    try {
      for (let next = this.readUnsent()[0]; next; next = this.readUnsent()[0]) {
        const { key, input } = next;
        try {
          await send(`/sessions/${this.id}/inputs`, { method: "POST", body: input, headers: { "Idempotency-Key": key }, signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
        } catch (error) {
          if (error instanceof Problem && (error.status === 0 || error.status >= 502)) {
            setTimeout(() => void this.flushLater(), FLUSH_AGAIN_MS); // sent when it is back
            return;
          }
          if (isLate && "text" in input) this.refusedText = [this.refusedText, input.text].filter(Boolean).join("\n");
          this.storeUnsent(this.readUnsent().filter((each) => each.key !== key));
          throw error;
        }
        this.sent += 1;
        this.storeUnsent(this.readUnsent().filter((each) => each.key !== key));
      }
    } finally {
      this.flushing = false;
    }
  }
}

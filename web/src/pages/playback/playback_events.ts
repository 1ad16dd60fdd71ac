// The events that a playback shows: of a session, read and followed over one socket, or of a record file.
import type { AnyEntry } from "../../fold/view_types";
import { type Mark, markOf } from "./timeline_event";
import { type Output, outputOf } from "./terminal_output_chunks";
import { Moments } from "./view_at_moment";
import { Axis } from "./time_axis";

const AWAITED_MS = 2000;
const RETRY_MS = [500, 1000, 2000, 4000, 8000];

export class Recording {
  readonly entries: AnyEntry[] = [];
  readonly axis = new Axis();
  readonly marks: Mark[] = [];
  readonly files = new Map<string, FileVersion[]>();
  readonly outputs = new Map<string, Output[]>();
  readonly moments = new Moments(this.entries);
  version = 0;
  isLoaded = false;
  isLive = false;
  problem = "";
  private listeners = new Set<() => void>();
  private scheduled = false;

  add(entry: AnyEntry): void {
    if (entry.seq !== this.entries.length + 1) return; // it was sent twice
    this.entries.push(entry);
    this.axis.add(entry);
    const mark = markOf(entry);
    if (mark) this.marks.push(mark);
    const version = versionOf(entry);
    if (version) listOf(this.files, version.path).push(version);
    const output = outputOf(entry);
    if (output) listOf(this.outputs, output.source).push(output);
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  changed(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setTimeout(() => {
      this.scheduled = false;
      this.version += 1;
      for (const listener of this.listeners) listener();
    }, 50);
  }

  /** Read the log of a session, and follow it until it ends. `head` is the number of its last event so far, `at` that of
   * the moment to show, which may be newer. */
  follow(session: string, head: number, at: number): () => void {
    let closed = false;
    let attempts = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let awaiting: ReturnType<typeof setTimeout> | undefined; // an event that an address names, and that may not exist
    const loaded = () => {
      this.isLoaded = true;
      this.changed();
    };
    let socket: WebSocket | undefined;
    const connect = () => {
      const scheme = location.protocol === "https:" ? "wss" : "ws";
      socket = new WebSocket(`${scheme}://${location.host}/api/v1/sessions/${session}/events/socket?after=${this.entries.length}`);
      socket.onopen = () => (this.isLive = true);
      socket.onmessage = (message) => {
        attempts = 0;
        const frame = JSON.parse(String(message.data)) as { type: string } & AnyEntry;
        if (frame.type === "delta") return;
        if (frame.type === "entry") this.add(frame);
        if (frame.type === "end") this.isLive = false;
        if (this.entries.length >= Math.max(head, at) || frame.type !== "entry") this.isLoaded = true;
        else if (this.entries.length >= head) {
          clearTimeout(awaiting); // entries still come
          awaiting = setTimeout(loaded, AWAITED_MS);
        }
        this.changed();
      };
      socket.onclose = (event) => {
        this.isLive = false;
        this.changed();
        if (closed || event.code === 1000 || event.code === 4403) {
          this.isLoaded = true;
          return;
        }
        timer = setTimeout(connect, RETRY_MS[Math.min(attempts++, RETRY_MS.length - 1)]);
      };
    };
    connect();
    return () => {
      closed = true;
      clearTimeout(timer);
      clearTimeout(awaiting);
      socket?.close();
    };
  }
}

function listOf<T>(map: Map<string, T[]>, key: string): T[] {
  const found = map.get(key);
  if (found) return found;
  const made: T[] = [];
  map.set(key, made);
  return made;
}

export type FileVersion = { path: string; seq: number; kind: string; before: string; after: string; by: string };

function versionOf({ seq, event }: AnyEntry): FileVersion | null {
  if (event.type !== "file.changed" || typeof event["path"] !== "string") return null;
  const text = (name: string) => (typeof event[name] === "string" ? event[name] : "");
  return { path: event["path"], seq, kind: text("kind"), before: text("before"), after: text("after"), by: text("by") };
}

// One file as a Yjs document that the server owns.
//
// There are two replicas: `doc`, which the editor shows, and `confirmed`, which the server certainly has. Their
// difference is what was typed and may be lost; it is kept in the browser until the server confirms it. A document of
// another epoch is never merged: the user's own changes are applied to it as new edits.
import * as Y from "yjs";
import type { CursorFrame, DocumentChannel, OpenFile, Opened } from "../../../api/document_socket";
import type { UnsavedFile } from "./unsaved_text_storage";
import { findReplacements, transferReplacements } from "./text_difference";

const SAVE_MS = 2000;
const RETRY_MS = 5000;
const MAX_INSERT_CHARS = 200_000; // of one update; the server takes 1 MiB
const MAX_MERGED_BYTES = 500_000;
const ROOT = "content";
const RETRIED_CODES = new Set(["too_many_requests", "limit_reached", "unavailable"]);
export const MINE = "mine"; // the origin of what is typed here; only that is undone
const SERVER = "server";
const ADOPTED = "adopted";

export type Change = { from: number; to: number; insert: string };
/** The view that shows the file. */
export interface Shown {
  replaced(text: string): void; // the text, for the first time or of another epoch
  changed(changes: Change[], isUndo: boolean): void;
  moved(cursor: CursorFrame): void;
  renewed(): void; // something else: status, problem
}
export interface Keeper {
  keep(make: () => UnsavedFile, atOnce: boolean): void;
  forget(): void;
}

type OwnText = { base: string; text: string };

export class SharedFile implements OpenFile {
  doc = new Y.Doc();
  undo = this.newUndo();
  epoch = "";
  isLoaded = false;
  isLive = false; // open at the server now
  problem = ""; // why the server does not take or write what is typed
  private isRejected = false; // an update was refused, so those after it mean nothing
  private hasFailed = false; // something since the last attempt to save
  readOnly = ""; // why nothing may be typed; the text may be shown
  isRefused = false; // the server has no document for it
  isDeleted = false;
  savedAtMs = 0;
  isUnsaved = false; // typed here, and not known to be on disk
  private confirmed = new Y.Doc();
  private pending: Uint8Array[] = []; // typed here, in order; the server may lack them
  private awaitsText = false;
  private saver: ReturnType<typeof setTimeout> | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private number = 0;

  constructor(readonly path: string, private readonly channel: DocumentChannel, private readonly shown: Shown, private readonly keeper: Keeper) {
    this.observe();
  }

  get text(): Y.Text {
    return this.doc.getText(ROOT);
  }

  get waits(): boolean {
    return this.pending.length > 0;
  }

  /** Begin with the changes that an earlier page could not send. */
  start(kept: UnsavedFile[]): void {
    for (const each of kept) this.restore(each);
    this.number = this.channel.attach(this);
  }

  /** Take over the changes that a closed page could not send. */
  adopt(kept: UnsavedFile[]): void {
    for (const each of kept) {
      if (!this.isLoaded) this.restore(each);
      else if (each.epoch === this.epoch) {
        const first = this.pending.push(...each.updates) - each.updates.length;
        for (const update of each.updates) Y.applyUpdate(this.doc, update, ADOPTED);
        this.isUnsaved = true;
        if (this.isLive) this.sendPending(first);
        this.saveSoon();
      } else {
        this.reapply(each);
        this.shown.replaced(plainText(this.text));
      }
    }
    this.renewed();
  }

  private restore(kept: UnsavedFile): void {
    if (!this.epoch || this.epoch === kept.epoch) {
      this.epoch = kept.epoch;
      this.pending.push(...kept.updates);
      this.isUnsaved = true;
      this.old.push({ base: kept.base, text: kept.text });
      this.shown.replaced(kept.text);
    } else this.rebased.push({ base: kept.base, text: kept.text });
  }

  private old: OwnText[] = []; // restored, until the server has answered
  private rebased: OwnText[] = []; // of other epochs, to be applied as new edits

  // --- messages of the socket ---

  known(): { epoch: string; state: string } {
    return { epoch: this.epoch, state: toBase64(Y.encodeStateVector(this.confirmed)) };
  }

  opened(frame: Opened): void {
    if (this.epoch && frame.epoch !== this.epoch) this.leaveEpoch();
    this.epoch = frame.epoch;
    this.readOnly = frame.writes ? "" : frame.reason;
    this.isRefused = false;
    this.awaitsText = true;
  }

  /** Remember the user's own changes as texts, and begin with an empty document. */
  private leaveEpoch(): void {
    if (this.old.length) this.rebased.push(...this.old);
    else if (this.pending.length) this.rebased.push({ base: plainText(this.confirmed.getText(ROOT)), text: plainText(this.text) });
    this.old = [];
    this.pending = [];
    this.doc.destroy();
    this.undo.destroy();
    this.doc = new Y.Doc();
    this.confirmed = new Y.Doc();
    this.undo = this.newUndo();
    this.isLoaded = false;
    this.observe();
  }

  updated(update: Uint8Array): void {
    Y.applyUpdate(this.confirmed, update);
    Y.applyUpdate(this.doc, update, SERVER);
    if (this.awaitsText) this.loaded();
  }

  private loaded(): void {
    this.awaitsText = false;
    const isFirst = !this.isLoaded;
    if (isFirst) for (const each of this.pending) Y.applyUpdate(this.doc, each, SERVER); // of an earlier page
    this.old = [];
    this.isLive = true;
    this.isRejected = false;
    for (const each of this.rebased.splice(0)) this.reapply(each);
    this.isLoaded = true;
    if (isFirst) this.shown.replaced(plainText(this.text));
    if (this.pending.length) this.sendPending(0);
    if (this.isUnsaved) this.saveSoon();
    this.renewed();
  }

  private reapply({ base, text }: OwnText): void {
    this.edit(transferReplacements(base, plainText(this.text), findReplacements(base, text)));
  }

  cursor(frame: CursorFrame): void {
    this.shown.moved(frame);
  }

  news(kind: "saved" | "unsaved" | "deleted", detail: string): void {
    if (kind === "saved") {
      if (!this.isUnsaved) this.savedAtMs = Date.now();
      if (!this.waits) this.problem = "";
      this.isDeleted = false;
    } else if (kind === "deleted") this.isDeleted = true;
    else {
      this.problem = detail;
      this.hasFailed = true;
    }
    this.renewed();
  }

  refused(code: string, detail: string): void {
    this.problem = detail;
    this.hasFailed = true;
    if (!this.isLive && !RETRIED_CODES.has(code)) {
      this.isRefused = true;
      this.readOnly = detail;
    } else {
      this.isRejected = true; // until the server has said again what it has
      clearTimeout(this.retry);
      this.retry = setTimeout(() => this.reopen(), RETRY_MS);
    }
    this.renewed();
  }

  reopen(): void {
    clearTimeout(this.retry);
    this.isLive = false;
    this.channel.detach(this.number);
    this.number = this.channel.attach(this);
    this.channel.retryNow();
  }

  lost(): void {
    this.isLive = this.awaitsText = false;
    if (this.isClosing) this.end();
    else this.renewed();
  }

  // --- actions of the user ---

  /** Change the text as the user; offsets are those before all changes. */
  edit(changes: readonly Change[]): void {
    if (!changes.length) return;
    let shift = 0;
    for (const { from, to, insert } of changes) {
      this.doc.transact(() => {
        if (to > from) this.text.delete(from + shift, to - from);
        if (insert.length <= MAX_INSERT_CHARS) this.text.insert(from + shift, insert);
      }, MINE);
      if (insert.length > MAX_INSERT_CHARS) this.insertInParts(from + shift, insert);
      shift += insert.length - (to - from);
    }
  }

  private insertInParts(at: number, text: string): void {
    for (let start = 0; start < text.length;) {
      let end = Math.min(start + MAX_INSERT_CHARS, text.length);
      if (end < text.length && text.charCodeAt(end - 1) >> 10 === 0x36) end -= 1; // not through a character of two units
      this.doc.transact(() => this.text.insert(at + start, text.slice(start, end)), MINE);
      start = end;
    }
  }

  save(): void {
    clearTimeout(this.saver);
    this.hasFailed = false;
    const count = this.edits;
    if (!this.isLive || this.readOnly || !this.channel.put("save", this.number)) return this.renewed();
    this.channel.confirm(() => {
      if (this.hasFailed || count !== this.edits) return;
      this.isUnsaved = false;
      this.problem = "";
      this.savedAtMs = Date.now();
      this.renewed();
    });
  }

  place(position: object | null): void {
    if (this.isLive) this.channel.put("cursor", this.number, { position });
  }

  /** Close the file; `then` is called when the server has the typed text, or cannot be reached. */
  close(then: () => void): void {
    clearTimeout(this.saver);
    clearTimeout(this.retry);
    this.isClosing = true;
    this.end = () => {
      this.end = () => undefined;
      this.channel.detach(this.number);
      then();
      this.doc.destroy();
    };
    if (!this.isLive || !this.waits || !this.channel.confirm(this.end)) this.end();
  }

  private isClosing = false;
  private end: () => void = () => undefined;

  // --- inside ---

  private edits = 0;

  private newUndo(): Y.UndoManager {
    return new Y.UndoManager(this.text, { trackedOrigins: new Set([MINE]), captureTimeout: 500 });
  }

  private observe(): void {
    const undo = this.undo;
    this.text.observe((event, transaction) => {
      if (this.isLoaded && transaction.origin !== MINE) this.shown.changed(changesOf(event.delta), transaction.origin === undo);
    });
    this.doc.on("update", (update: Uint8Array, origin: unknown) => {
      if (origin === MINE || origin === undo) this.typed(update);
    });
  }

  private typed(update: Uint8Array): void {
    this.edits += 1;
    this.pending.push(update);
    this.isUnsaved = true;
    this.isDeleted = false;
    if (this.isLive) this.sendPending(this.pending.length - 1);
    this.saveSoon();
    this.renewed();
  }

  private sendPending(first: number): void {
    if (this.readOnly || this.isRejected) return;
    for (const update of this.pending.slice(first)) if (!this.channel.sendUpdate(this.number, update)) return;
    const sent = this.pending.at(-1);
    this.channel.confirm(() => this.confirmUpTo(sent));
  }

  private confirmUpTo(sent: Uint8Array | undefined): void {
    const count = sent ? this.pending.indexOf(sent) + 1 : 0;
    if (this.isRejected || !this.isLive || !count) return;
    for (const update of this.pending.splice(0, count)) Y.applyUpdate(this.confirmed, update);
    this.renewed();
  }

  private toKeep(): UnsavedFile {
    const base = plainText(this.confirmed.getText(ROOT));
    return { epoch: this.epoch, base, text: plainText(this.text), updates: merged(this.pending) };
  }

  private saveSoon(): void {
    clearTimeout(this.saver);
    this.saver = setTimeout(() => this.save(), SAVE_MS);
  }

  private renewed(): void {
    if (!this.waits) this.keeper.forget();
    else if (!this.old.length) this.keeper.keep(() => this.toKeep(), !this.isLive);
    this.channel.notify();
    if (!this.isClosing) this.shown.renewed();
  }
}

/** Fewer updates with the same effect, none too large to be sent. */
function merged(updates: Uint8Array[]): Uint8Array[] {
  const groups: Uint8Array[][] = [];
  let size = Infinity;
  for (const update of updates) {
    size += update.length;
    if (size > MAX_MERGED_BYTES) {
      groups.push([]);
      size = update.length;
    }
    groups.at(-1)?.push(update);
  }
  return groups.map((group) => Y.mergeUpdates(group));
}

/** The text with one character for everything in it that is not text, so that offsets agree. */
export function plainText(text: Y.Text): string {
  return (text.toDelta() as { insert: unknown }[]).map(({ insert }) => (typeof insert === "string" ? insert : "\ufffc")).join("");
}

function changesOf(delta: Y.YTextEvent["delta"]): Change[] {
  const changes: Change[] = [];
  let at = 0;
  for (const { insert, delete: deleted, retain } of delta) {
    if (retain) at += retain;
    else if (deleted) {
      changes.push({ from: at, to: at + deleted, insert: "" });
      at += deleted;
    } else if (insert !== undefined) changes.push({ from: at, to: at, insert: typeof insert === "string" ? insert : "\ufffc" });
  }
  return changes;
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

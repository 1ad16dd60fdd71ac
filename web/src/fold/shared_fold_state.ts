// The state that the parts of the fold share: the view, its rows by id, and the row of each call and shell.
import { type AnyEntry, type Note, type NoteKind, type Row, type View, emptyView } from "./view_types";

export const MAX_ROWS = 5000;
const SPARE_ROWS = 500; // so that rows are dropped in one go, not one by one
const WHOLE_ROWS = 1000; // the newest, with all the output that they keep
const OLD_OUTPUT_CHARS = 4096;
const MAX_REPLIES = 200;

export class FoldState {
  readonly view: View = emptyView();
  readonly calls = new Map<string, string>(); // call id -> row id of its newest call
  readonly shells = new Map<string, string>(); // shell, terminal, background or test run id -> row id
  readonly replied = new Set<string>(); // replies of which the log has the whole
  readonly thinking = new Map<string, number>(); // reply -> when it began to think
  readonly undone = new Map<number, [number, number]>(); // an undo -> the entries that it took back
  readonly originals = new Map<string, string | null>(); // path -> hash of the file before its first change
  readonly helpers = new Map<string, string>(); // session of a helper -> its name
  readonly queued = new Set<string>();
  isPaused = false;
  isParked = false;
  isEnded = false;
  maxRows = MAX_ROWS;
  private at = new Map<string, number>(); // row id -> its place

  row(id: string): Row | undefined {
    const place = this.at.get(id);
    return place === undefined ? undefined : this.view.rows[place];
  }

  put(row: Row): void {
    const place = this.at.get(row.id);
    if (place === undefined) {
      this.at.set(row.id, this.view.rows.length);
      this.view.rows.push(row);
      if (this.view.rows.length > this.maxRows + SPARE_ROWS) this.dropOldest();
    } else {
      this.view.rows[place] = row;
    }
  }

  /** Keep the newest rows only. The cut is where a turn begins, so that no call is divided. */
  private dropOldest(): void {
    const { rows } = this.view;
    const earliest = rows.length - this.maxRows;
    const found = rows.findIndex((row, place) => place >= earliest && (row.kind === "reply" || row.kind === "message"));
    const cut = found < 0 || found > earliest + SPARE_ROWS ? earliest : found;
    const recentRows = rows.slice(cut);
    this.view.rowsFrom = Math.max(this.view.rowsFrom, rows[cut]?.seq ?? 0);
    const prompt = this.row(`run:${this.view.run}`);
    if (prompt && !recentRows.includes(prompt)) recentRows.unshift(prompt); // of the run that goes on
    this.view.rows = recentRows.map((row, place) => (place < recentRows.length - WHOLE_ROWS ? withLessOutput(row) : row));
    this.at = new Map(this.view.rows.map((row, place) => [row.id, place]));
    for (const places of [this.calls, this.shells]) for (const [key, id] of places) if (!this.at.has(id)) places.delete(key);
    for (const key of [...this.replied].slice(0, -MAX_REPLIES)) this.replied.delete(key);
    for (const key of this.thinking.keys()) if (this.replied.has(key)) this.thinking.delete(key);
  }

  /** Remove rows; those after them keep their order. */
  remove(matches: (row: Row) => boolean): void {
    const first = this.view.rows.findIndex(matches);
    if (first < 0) return;
    const rest = this.view.rows.splice(first);
    for (const row of rest) this.at.delete(row.id);
    for (const row of rest) if (!matches(row)) this.put(row);
  }

  note(entry: AnyEntry, tone: NoteKind, what: string, text = "", detail = "", link = ""): void {
    const row: Note = { kind: "note", id: `note:${entry.seq}`, seq: entry.seq, atMs: entry.at_ms, runId: this.view.run, tone, what, text, detail, link };
    this.put(row);
  }

  /** Calls that the model has not made after all. */
  dropWriting(runId: string): void {
    this.remove((row) => row.kind === "tool" && row.runId === runId && (row.status === "writing" || row.status === "next"));
  }

  markUndone(after: number, before: number, undone: boolean): void {
    const runs = new Set<string>();
    this.view.rows.forEach((row, place) => {
      if (row.seq <= after || row.seq >= before) return;
      runs.add(row.runId);
      this.view.rows[place] = { ...row, undone };
    });
    if (before - after <= 2) return; // one step
    // A prompt may have been queued long before its run began.
    this.view.rows.forEach((row, place) => {
      if (row.kind === "prompt" && runs.has(row.runId)) this.view.rows[place] = { ...row, undone };
    });
  }

  spend(event: { input_tokens: number; output_tokens: number; cost_usd?: number | null }): void {
    const { meter } = this.view;
    meter.inputTokens += event.input_tokens;
    meter.outputTokens += event.output_tokens;
    if (event.cost_usd == null) meter.unpriced += 1;
    else meter.costUsd += event.cost_usd;
  }
}

function withLessOutput(row: Row): Row {
  if ((row.kind !== "tool" && row.kind !== "command") || row.output.chars <= OLD_OUTPUT_CHARS) return row;
  const text = row.output.pieces.join("").slice(-OLD_OUTPUT_CHARS);
  return { ...row, output: { pieces: [text], chars: text.length, skipped: row.output.skipped + row.output.chars - text.length } };
}

// Events in, view out. No request, no clock, no page: the same frames always give the same view.
//
// Rows are replaced, never changed, so that a row that is the same object is shown as it was. An entry beats the deltas of
// the same reply, whichever came first. A type that is not known becomes a row of its own.
import { foldCall } from "./tool_calls";
import { foldFile } from "./changed_files";
import { foldCommand } from "./commands";
import { foldDependencies } from "./installed_dependencies_and_services";
import { endAfterCrash, foldDebugger } from "./debugger";
import { foldDelta, foldReply } from "./replies";
import { FoldState, MAX_ROWS } from "./shared_fold_state";
import { foldRun } from "./runs";
import { foldSession } from "./options_undos_and_notes";
import { foldTestLine, foldTests } from "./test_runs";
import type { AnyEntry, Delta, Event, Row, View } from "./view_types";

export const FOLD_VERSION = 7;

/** A fold as data, which can be stored and sent to a worker. */
export type SavedFold = { version: number; state: object };

export class Fold {
  private readonly state = new FoldState();

  /** A fold that goes on where another one was. Null if it is of another version of the app. */
  static restored(saved: SavedFold): Fold | null {
    if (saved.version !== FOLD_VERSION) return null;
    const fold = new Fold();
    Object.assign(fold.state, saved.state, { maxRows: MAX_ROWS });
    return fold;
  }

  /** A fold of a log from one of its later events on. */
  static startingAt(seq: number, known: Partial<View>): Fold {
    const fold = new Fold();
    const { state } = fold;
    Object.assign(state.view, known, { seq: seq - 1, rowsFrom: seq <= 1 ? 0 : seq });
    state.isPaused = known.state === "paused";
    state.isParked = known.state === "parked";
    state.isEnded = known.state === "ended";
    return fold;
  }

  /** Rows that an undo has taken back, in a part of the log that was folded by itself. */
  markUndoneIn(rows: readonly Row[]): Row[] {
    const ranges = [...this.state.undone.values()];
    return rows.map((row) => (ranges.some(([after, before]) => row.seq > after && row.seq < before) ? { ...row, undone: true } : row));
  }

  set maxRows(count: number) {
    this.state.maxRows = count;
  }

  /** The fold as data. It shares its parts with this fold: clone it before another event is folded. */
  save(): SavedFold {
    return { version: FOLD_VERSION, state: { ...this.state } };
  }

  get view(): View {
    return this.state.view;
  }

  row(id: string): Row | undefined {
    return this.state.row(id);
  }

  entries(list: readonly AnyEntry[]): void {
    for (const entry of list) this.entry(entry);
  }

  entry(entry: AnyEntry): void {
    const { state } = this;
    if (entry.seq <= state.view.seq) return;
    state.view.seq = entry.seq;
    state.view.lastAtMs = entry.at_ms;
    const event = entry.event;
    if (event["erased"] === true || event["withheld"] === true) {
      state.note(entry, "info", event["erased"] ? "erased" : "withheld", event.type, typeof event["reason"] === "string" ? event["reason"] : "");
    } else {
      apply(state, entry, event as unknown as Event);
    }
    state.view.state = sessionState(state);
  }

  delta(delta: Delta, atMs: number): void {
    if (delta.kind === "tests") foldTestLine(this.state, delta);
    else foldDelta(this.state, delta, atMs);
  }
}

function sessionState(state: FoldState): View["state"] {
  if (state.isEnded) return "ended";
  if (state.isPaused) return "paused";
  if (state.view.pending.length > 0) return "waiting";
  if (state.view.run) return "running";
  if (state.queued.size > 0) return "queued";
  return state.isParked ? "parked" : "idle";
}

function apply(state: FoldState, entry: AnyEntry, event: Event): void {
  switch (event.type) {
    case "file.changed":
      return foldFile(state, entry, event);
    case "run.queued":
    case "run.started":
    case "run.changed":
    case "run.resumed":
    case "run.ended":
      return foldRun(state, entry, event);
    case "model.replied":
      return foldReply(state, entry, event);
    case "tool.called":
    case "tool.returned":
    case "approval.requested":
    case "approval.answered":
    case "approval.extended":
    case "question.asked":
    case "question.answered":
      return foldCall(state, entry, event);
    case "command.started":
    case "command.yielded":
    case "command.ended":
    case "shell.printed":
      return foldCommand(state, entry, event);
    case "tests.started":
    case "tests.run":
      return foldTests(state, entry, event);
    case "environment.build_started":
    case "environment.built":
    case "environment.failed":
    case "environment.attached":
    case "service.started":
    case "service.answered":
    case "service.failed":
    case "service.stopped":
      return foldDependencies(state, entry, event);
    case "terminal.opened":
      state.view.terminals += 1;
      return;
    case "files.changed":
    case "image.loaded":
    case "delivery.requested":
    case "command.signalled":
    case "jobs.detached":
    case "jobs.ended":
    case "terminal.printed":
    case "terminal.typed":
    case "terminal.resized":
    case "terminal.ended":
      return;
    case "debug.breakpoints_changed":
    case "debug.started":
    case "debug.driver_changed":
    case "debug.continued":
    case "debug.stopped":
    case "debug.evaluated":
    case "debug.printed":
    case "debug.ended":
      return foldDebugger(state, entry, event);
    case "events.omitted":
      endAfterCrash(state, event.cause);
      return foldSession(state, entry, event);
    default:
      return foldSession(state, entry, event);
  }
}

export function foldAll(frames: readonly ({ entry: AnyEntry } | { delta: Delta; at_ms: number })[]): View {
  const fold = new Fold();
  for (const frame of frames) {
    if ("entry" in frame) fold.entry(frame.entry);
    else fold.delta(frame.delta, frame.at_ms);
  }
  return fold.view;
}

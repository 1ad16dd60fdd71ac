// The content of a session page, as plain data. The fold computes it from events alone.
import type { Schemas } from "../api/http_client";

export type Event = Schemas["Event"];
export type AnyEntry = { seq: number; at_ms: number; event: { type: string } & Record<string, unknown> };
export type Delta = { run_id: string; turn: number; kind: "text" | "thinking" | "call" | "arguments" | "again" | "resumed" | "tests"; text: string; call_id: string; tool: string };
export type State = Schemas["Session"]["state"];

type Base = { id: string; seq: number; atMs: number; runId: string; undone?: boolean };
export type Prompt = Base & { kind: "prompt"; text: string; by: string; persona: string; model: string; state: "queued" | "running" | "ended"; outcome: string; reason: string; turns: number; costUsd: number | null; durationS: number };
export type Message = Base & { kind: "message"; author: string; by: string; text: string };
export type Reply = Base & { kind: "reply"; turn: number; text: string; thinking: string; thoughtS: number; streaming: boolean; again: string };
export type Tests = { ok: boolean; running: boolean; passed: number; failed: number; skipped: number; fixed: number; broke: number; durationS: number; reason: string; command: string; lastLine: string; testRun: string; cases: Schemas["CaseResult"][]; omitted: number; seq: number };
export type Output = { pieces: string[]; chars: number; skipped: number };
export type Command = { text: string; cwd: string; exitCode: number | null; signal: number | null; timedOut: boolean; background: string; ended: boolean };
export type Approval = { callId: string; summary: string; rule: string; covers: string[]; source: string; approvers: string[]; answer: "" | "allowed" | "denied"; scope: string; by: string; helper: Helper | null };
/** The helper whose call waits, and its session. */
export type Helper = { session: string; name: string };
export type Question = { callId: string; text: string; choices: readonly string[]; answer: string; by: string; answered: boolean };
export type ChangedFile = { path: string; kind: string; seq: number; movedFrom: string };
export type ToolStatus = "writing" | "next" | "running" | "asking" | "ok" | "failed";
export type Tool = Base & { kind: "tool"; callId: string; tool: string; arguments: string; status: ToolStatus; text: string; durationS: number; rule: string; output: Output; command: Command | null; approval: Approval | null; question: Question | null; files: ChangedFile[]; tests: Tests | null };
export type UserCommand = Base & { kind: "command"; by: string; shell: string; output: Output; command: Command; durationS: number };
export type UserTests = Base & { kind: "tests"; by: string; tests: Tests };
export type NoteKind = "info" | "ok" | "warn" | "bad";
export type Note = Base & { kind: "note"; tone: NoteKind; what: string; text: string; detail: string; link: string };
export type Row = Prompt | Message | Reply | Tool | UserCommand | UserTests | Note;

export type FileMark = { kind: "created" | "modified" | "deleted" | "moved"; by: string; runId: string; seq: number };
export type Meter = { contextTokens: number; inputTokens: number; outputTokens: number; costUsd: number; unpriced: number; turns: number; maxTurns: number | null; maxCostUsd: number | null; maxContextTokens: number | null };

/** The debugger that everyone in the session shares, and the breakpoints of all files. */
export type Breakpoint = { line: number; condition: string };
export type Debugger = {
  id: string;
  status: "none" | "running" | "stopped" | "ended";
  path: string;
  command: string;
  driver: string;
  stop: number; // the number of the last stop
  reason: string; // of the last stop, or of the end
  text: string; // of an exception
  place: { path: string; line: number }; // where it has stopped; no path for code outside
  exitCode: number | null;
  output: string; // its end
  breakpoints: Record<string, readonly Breakpoint[]>;
};

export const noDebugger = (): Debugger => ({ id: "", status: "none", path: "", command: "", driver: "", stop: 0, reason: "", text: "", place: { path: "", line: 0 }, exitCode: null, output: "", breakpoints: {} });

export type View = {
  seq: number;
  lastAtMs: number;
  state: State;
  reason: string;
  purpose: string;
  owner: string;
  persona: string;
  model: string;
  commit: string;
  run: string; // the one at work; empty if there is none
  rows: Row[];
  rowsFrom: number; // rows of events before this one are not here; 0 if all are
  pending: string[]; // ids of rows that wait for a person, the oldest first
  files: Record<string, FileMark>;
  lastChange: { path: string; seq: number; by: string } | null; // of a file
  meter: Meter;
  tests: Tests | null;
  snapshots: { number: number; seq: number; atMs: number; reason: string }[];
  changes: string[];
  terminals: number; // that were opened
  undoable: string; // the run that an undo would take back
  redoable: boolean;
  debug: Debugger;
};

export const emptyOutput = (): Output => ({ pieces: [], chars: 0, skipped: 0 });

export const emptyView = (): View => ({
  seq: 0, lastAtMs: 0, state: "idle", reason: "", purpose: "", owner: "", persona: "", model: "", commit: "", run: "",
  rows: [], rowsFrom: 0, pending: [], files: {}, lastChange: null, tests: null, snapshots: [], changes: [], terminals: 0, undoable: "", redoable: false, debug: noDebugger(),
  meter: { contextTokens: 0, inputTokens: 0, outputTokens: 0, costUsd: 0, unpriced: 0, turns: 0, maxTurns: null, maxCostUsd: null, maxContextTokens: null },
});

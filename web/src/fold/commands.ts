// Commands and their output, in the rows of their calls or in rows of their own.
import type { FoldState } from "./shared_fold_state";
import { type AnyEntry, type Event, type Output, type UserCommand, emptyOutput } from "./view_types";

const MAX_OUTPUT_CHARS = 64 * 1024;
const MIN_PIECE_CHARS = 512;
type CommandEvent = Extract<Event, { type: "command.started" | "command.yielded" | "command.ended" | "shell.printed" }>;

export function foldCommand(state: FoldState, entry: AnyEntry, event: CommandEvent): void {
  if (event.type === "command.started") {
    const command = { text: event.command, cwd: event.cwd, exitCode: null, signal: null, timedOut: false, background: "", ended: false };
    const row = event.call_id ? state.row(state.calls.get(event.call_id) ?? "") : undefined;
    if (row?.kind === "tool") {
      state.shells.set(event.shell, row.id);
      return state.put({ ...row, command });
    }
    if (event.terminal) return; // it is in the terminal
    const made: UserCommand = { kind: "command", id: `command:${entry.seq}`, seq: entry.seq, atMs: entry.at_ms, runId: "", by: event.by, shell: event.shell, output: emptyOutput(), command, durationS: 0 };
    state.shells.set(event.shell, made.id);
    return state.put(made);
  }
  const source = (event.type === "command.yielded" ? "" : event.background_id) || ("shell" in event ? event.shell : "");
  const row = state.row(state.shells.get(source) ?? "");
  if (!row || (row.kind !== "tool" && row.kind !== "command") || !row.command) return;
  if (event.type === "shell.printed") {
    state.put({ ...row, output: appended(row.output, event.text, event.skipped_bytes) });
  } else if (event.type === "command.yielded") {
    state.shells.set(event.background_id, row.id);
    state.put({ ...row, command: { ...row.command, background: event.background_id } });
  } else {
    state.put({ ...row, durationS: event.duration_s, command: { ...row.command, exitCode: event.exit_code ?? null, signal: event.signal ?? null, timedOut: event.timed_out, ended: true } });
  }
}

/** Output with one more piece; the oldest pieces go when there are too many characters. Short pieces are joined, so that
 * the list stays short. */
function appended(output: Output, text: string, skipped: number): Output {
  const last = output.pieces.at(-1);
  const isJoined = last !== undefined && last.length + text.length <= MIN_PIECE_CHARS;
  const pieces = isJoined ? [...output.pieces.slice(0, -1), last + text] : [...output.pieces, text];
  let chars = output.chars + text.length;
  let gone = output.skipped + skipped;
  while (chars > MAX_OUTPUT_CHARS && pieces.length > 1) {
    const first = pieces.shift() ?? "";
    chars -= first.length;
    gone += first.length;
  }
  return { pieces, chars, skipped: gone };
}

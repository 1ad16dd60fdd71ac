// The debugger of the session: its program, the place of its stop, its driver, and the breakpoints of all files.
import type { FoldState } from "./shared_fold_state";
import { type AnyEntry, type Debugger, type Event, noDebugger } from "./view_types";

type DebugEvent = Extract<Event, { type: `debug.${string}` }>;
const MAX_OUTPUT_CHARS = 20_000;

export function foldDebugger(state: FoldState, entry: AnyEntry, event: DebugEvent): void {
  const { view } = state;
  const change = (changed: Partial<Debugger>) => { view.debug = { ...view.debug, ...changed }; };
  switch (event.type) {
    case "debug.breakpoints_changed": {
      const others = Object.fromEntries(Object.entries(view.debug.breakpoints).filter(([path]) => path !== event.file));
      const lines = event.breakpoints.map(({ line, condition }) => ({ line, condition }));
      return change({ breakpoints: lines.length > 0 ? { ...others, [event.file]: lines } : others });
    }
    case "debug.started":
      view.debug = { ...noDebugger(), breakpoints: view.debug.breakpoints, id: event.debug, status: "running", path: event.file, command: event.command, driver: event.by };
      return state.note(entry, "info", "debugStarted", event.command, event.by);
    case "debug.driver_changed":
      change({ driver: event.by });
      return state.note(entry, "info", "debugDriver", event.by);
    case "debug.continued":
      return event.action === "pause" ? undefined : change({ status: "running", reason: "", text: "", place: noDebugger().place });
    case "debug.stopped": {
      const shown = event.file ? { path: event.file, line: event.line } : noDebugger().place;
      change({ status: "stopped", stop: event.number, reason: event.reason, text: event.text, place: shown });
      return state.note(entry, "info", "debugStopped", event.file ? `${event.file}:${event.line}` : event.reason, event.text);
    }
    case "debug.evaluated":
      return change({ output: lastOf(`${view.debug.output}${view.debug.output && !view.debug.output.endsWith("\n") ? "\n" : ""}› ${event.expression}\n${event.result}\n`) });
    case "debug.printed":
      return change({ output: lastOf(view.debug.output + event.text) });
    case "debug.ended":
      change({ status: "ended", reason: event.reason, text: "", place: noDebugger().place, exitCode: event.exit_code ?? null });
      return state.note(entry, "info", "debugEnded", event.exit_code === null ? "" : String(event.exit_code), event.reason);
  }
}

/** A killed server takes its debuggers with it, and records no end of them. */
export function endAfterCrash(state: FoldState, cause: string | undefined): void {
  const { debug } = state.view;
  if (cause === "crash" && (debug.status === "running" || debug.status === "stopped")) state.view.debug = { ...debug, status: "ended", place: noDebugger().place };
}

const lastOf = (text: string) => text.slice(-MAX_OUTPUT_CHARS);

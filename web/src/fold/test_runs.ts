// Test runs, in the rows of their calls or in rows of their own. The view has the newest.
import type { FoldState } from "./shared_fold_state";
import type { AnyEntry, Delta, Event, Tests } from "./view_types";

type TestEvent = Extract<Event, { type: "tests.started" | "tests.run" }>;

/** The newest line that the tests have printed. */
export function foldTestLine(state: FoldState, delta: Delta): void {
  const row = state.row(state.shells.get(`tests:${delta.run_id}`) ?? "");
  if ((row?.kind !== "tool" && row?.kind !== "tests") || !row.tests?.running) return;
  const tests = { ...row.tests, lastLine: delta.text };
  if (state.view.tests?.testRun === tests.testRun) state.view.tests = tests;
  state.put({ ...row, tests });
}

export function foldTests(state: FoldState, entry: AnyEntry, event: TestEvent): void {
  const testRun = event.test_run ?? "";
  const key = `tests:${testRun}`;
  const own = { kind: "tests" as const, id: `tests:${entry.seq}`, seq: entry.seq, atMs: entry.at_ms, runId: event.run_id };
  if (event.type === "tests.started") {
    const tests: Tests = { ok: false, running: true, passed: 0, failed: 0, skipped: 0, fixed: 0, broke: 0, durationS: 0, reason: "", command: event.command, lastLine: "", testRun, cases: [], omitted: 0, seq: entry.seq };
    state.view.tests = tests;
    const row = event.call_id ? state.row(state.calls.get(event.call_id) ?? "") : undefined;
    if (row?.kind === "tool") {
      state.shells.set(key, row.id);
      return state.put({ ...row, tests });
    }
    state.shells.set(key, own.id);
    return state.put({ ...own, by: event.by, tests });
  }
  const begun = state.row(state.shells.get(key) ?? "");
  const row = begun?.kind === "tool" || begun?.kind === "tests" ? begun : undefined;
  const tests: Tests = {
    ok: event.ok, running: false, passed: event.passed, failed: event.failed, skipped: event.skipped, fixed: event.fixed ?? 0, broke: event.broke ?? 0,
    durationS: event.duration_s, reason: event.reason ?? "", command: event.command, lastLine: "", testRun, cases: (event.cases ?? []).filter((each) => each.outcome === "failed"), omitted: event.omitted_cases ?? 0,
    seq: row?.tests?.seq ?? entry.seq,
  };
  state.view.tests = tests;
  if (row) state.put({ ...row, tests });
  else state.put({ ...own, by: event.by ?? "", tests });
}

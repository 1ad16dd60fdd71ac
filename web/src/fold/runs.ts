// Runs: their prompts and limits, and the calls and questions that are open when a run ends.
import type { FoldState } from "./shared_fold_state";
import type { AnyEntry, Event, Prompt } from "./view_types";

type RunEvent = Extract<Event, { type: `run.${string}` }>;

export function foldRun(state: FoldState, entry: AnyEntry, event: RunEvent): void {
  const { view } = state;
  const id = `run:${event.run_id}`;
  const before = state.row(id) as Prompt | undefined;
  switch (event.type) {
    case "run.queued":
    case "run.started": {
      const fresh: Prompt = { kind: "prompt", id, seq: entry.seq, atMs: entry.at_ms, runId: event.run_id, text: event.prompt, by: "", persona: "", model: "", state: "queued", outcome: "", reason: "", turns: 0, costUsd: 0, durationS: 0 };
      const row = before ?? fresh;
      if (event.type === "run.queued") {
        state.queued.add(event.run_id);
        return state.put({ ...row, by: event.by });
      }
      state.queued.delete(event.run_id);
      view.run = view.undoable = event.run_id;
      view.redoable = false;
      view.meter.turns = 0;
      state.isParked = false;
      setOptions(state, event);
      const waited = view.rows.findLast((each) => each === before || (each.kind !== "note" && each.kind !== "prompt"));
      if (before && waited !== before) state.remove((each) => each === before); // it stands where its run begins
      return state.put({ ...row, state: "running", persona: event.persona, model: event.model });
    }
    case "run.changed":
      return setOptions(state, event);
    case "run.resumed":
      state.queued.add(event.run_id);
      if (event.max_turns != null) view.meter.maxTurns = event.max_turns;
      if (event.max_cost_usd != null) view.meter.maxCostUsd = event.max_cost_usd;
      if (before) state.put({ ...before, state: "queued", outcome: "", reason: "" });
      return;
    case "run.ended":
      state.queued.delete(event.run_id);
      if (view.run === event.run_id) view.run = "";
      state.dropWriting(event.run_id);
      endOpen(state, event.run_id);
      if (before) state.put({ ...before, state: "ended", outcome: event.outcome, reason: event.reason, turns: event.turns, costUsd: event.cost_usd ?? null, durationS: event.duration_s });
  }
}

function setOptions({ view }: FoldState, event: Extract<RunEvent, { type: "run.started" | "run.changed" }>): void {
  view.persona = event.persona;
  view.model = event.model;
  view.meter.maxTurns = event.max_turns ?? null;
  view.meter.maxCostUsd = event.max_cost_usd ?? null;
  view.meter.maxContextTokens = event.context_tokens ?? null;
}

/** A run that was stopped leaves calls and questions without an answer, and an incomplete reply. */
function endOpen(state: FoldState, runId: string): void {
  const { view } = state;
  view.pending = view.pending.filter((id) => state.row(id)?.runId !== runId);
  for (const row of view.rows) {
    if (row.runId !== runId) continue;
    if (row.kind === "tool" && (row.status === "running" || row.status === "asking")) state.put({ ...row, status: "failed" });
    if (row.kind === "reply" && row.streaming) state.put({ ...row, streaming: false });
  }
}

// Replies of the model: streamed parts, then the whole reply, which replaces the parts even if it arrives first.
import { newTool } from "./tool_calls";
import type { FoldState } from "./shared_fold_state";
import type { AnyEntry, Delta, Event, Reply } from "./view_types";

export function foldDelta(state: FoldState, delta: Delta, atMs: number): void {
  const key = `${delta.run_id}:${delta.turn}`;
  if (state.replied.has(key)) return;
  const id = `reply:${key}`;
  switch (delta.kind) {
    case "again":
    case "resumed": {
      state.dropWriting(delta.run_id);
      const before = state.row(id);
      if (before || delta.text) state.put({ ...streamed(state, id, delta, atMs), text: "", thinking: "", again: delta.text });
      return;
    }
    case "text":
    case "thinking": {
      const before = streamed(state, id, delta, atMs);
      if (delta.kind === "thinking" && !state.thinking.has(key)) state.thinking.set(key, atMs);
      const started = state.thinking.get(key);
      const thoughtS = started === undefined || before.text ? before.thoughtS : (atMs - started) / 1000;
      return state.put({ ...before, [delta.kind]: before[delta.kind] + delta.text, thoughtS, again: "" });
    }
    case "call":
      if (!state.row(`call:${delta.run_id}:${delta.call_id}`)) state.put(newTool(state, { runId: delta.run_id, callId: delta.call_id, tool: delta.tool, arguments: "", status: "writing", seq: state.view.seq, atMs }));
      return;
    case "arguments": {
      const row = state.row(`call:${delta.run_id}:${delta.call_id}`);
      if (row?.kind === "tool" && row.status === "writing") state.put({ ...row, arguments: row.arguments + delta.text });
    }
  }
}

function streamed(state: FoldState, id: string, delta: Delta, atMs: number): Reply {
  const row = state.row(id);
  if (row?.kind === "reply") return row;
  return { kind: "reply", id, seq: state.view.seq, atMs, runId: delta.run_id, turn: delta.turn, text: "", thinking: "", thoughtS: 0, streaming: true, again: "" };
}

export function foldReply(state: FoldState, entry: AnyEntry, event: Extract<Event, { type: "model.replied" }>): void {
  const key = `${event.run_id}:${event.turn}`;
  state.replied.add(key);
  state.spend(event);
  state.view.meter.contextTokens = event.input_tokens + event.output_tokens;
  state.view.meter.turns = event.turn;
  const id = `reply:${key}`;
  const before = state.row(id);
  const thoughtS = before?.kind === "reply" ? before.thoughtS : 0;
  if (event.text || event.thinking) {
    state.put({ kind: "reply", id, seq: entry.seq, atMs: before?.atMs ?? entry.at_ms, runId: event.run_id, turn: event.turn, text: event.text, thinking: event.thinking, thoughtS: thoughtS || (event.text ? 0 : event.duration_s), streaming: false, again: "" });
  } else if (before) {
    state.remove((row) => row.id === id);
  }
  for (const call of event.calls) {
    const row = state.row(`call:${event.run_id}:${call.id}`);
    if (row?.kind === "tool") state.put({ ...row, arguments: call.arguments, status: "next" });
    else state.put(newTool(state, { runId: event.run_id, callId: call.id, tool: call.tool, arguments: call.arguments, status: "next", seq: entry.seq, atMs: entry.at_ms }));
  }
}

// Tool calls, and the approvals and questions that belong to them.
import type { FoldState } from "./shared_fold_state";
import { type AnyEntry, type Approval, type Event, type Tool, emptyOutput } from "./view_types";

type CallEvent = Extract<Event, { type: `tool.${string}` | `approval.${string}` | "question.asked" | "question.answered" }>;
type NewTool = Pick<Tool, "runId" | "callId" | "tool" | "arguments" | "status" | "seq" | "atMs">;

export function newTool(state: FoldState, made: NewTool): Tool {
  const id = `call:${made.runId}:${made.callId}`;
  state.calls.set(made.callId, id);
  return { kind: "tool", id, ...made, text: "", durationS: 0, rule: "", output: emptyOutput(), command: null, approval: null, question: null, files: [], tests: null };
}

export function foldCall(state: FoldState, entry: AnyEntry, event: CallEvent): void {
  const { view } = state;
  const at = { seq: entry.seq, atMs: entry.at_ms };
  if (event.type === "tool.called") {
    const row = state.row(`call:${event.run_id}:${event.call_id}`);
    if (row?.kind !== "tool") return state.put(newTool(state, { runId: event.run_id, callId: event.call_id, tool: event.tool, arguments: event.arguments, status: "running", ...at }));
    state.calls.set(event.call_id, row.id);
    return state.put({ ...row, ...at, arguments: event.arguments, status: row.status === "asking" ? "asking" : "running" });
  }
  const row = rowOf(state, event, at);
  if (!row) return;
  const settled = () => {
    view.pending = view.pending.filter((id) => id !== row.id);
  };
  const wait = () => {
    if (!view.pending.includes(row.id)) view.pending.push(row.id);
  };
  switch (event.type) {
    case "tool.returned":
      settled();
      return state.put({ ...row, status: event.ok ? "ok" : "failed", text: event.text, durationS: event.duration_s, rule: event.rule });
    case "approval.requested":
      wait();
      return state.put({ ...row, status: "asking", approval: { callId: event.call_id, summary: event.summary, rule: event.rule, covers: event.covers, source: event.source, approvers: event.approvers, answer: "", scope: "", by: "", helper: helperOf(state, event) } });
    case "approval.answered":
      settled();
      if (!row.approval) return;
      return state.put({ ...row, status: statusAfter(row, row.approval, event.allowed), approval: { ...row.approval, answer: event.allowed ? "allowed" : "denied", scope: event.scope, by: event.by } });
    case "approval.extended":
      return row.approval ? state.put({ ...row, approval: { ...row.approval, scope: "session", by: event.by } }) : undefined;
    case "question.asked":
      wait();
      return state.put({ ...row, status: "asking", question: { callId: event.call_id, text: event.text, choices: event.choices ?? [], answer: "", by: "", answered: false } });
    case "question.answered":
      settled();
      return state.put({ ...row, status: "running", question: { callId: event.call_id, text: row.question?.text ?? "", choices: row.question?.choices ?? [], answer: event.text, by: event.by, answered: true } });
  }
}

function rowOf(state: FoldState, event: Exclude<CallEvent, { type: "tool.called" }>, at: { seq: number; atMs: number }): Tool | undefined {
  const known = state.row(state.calls.get(event.call_id) ?? "") as Tool | undefined;
  if (known) return known;
  const made = (tool: string) => newTool(state, { runId: state.view.run, callId: event.call_id, tool, arguments: "", status: "asking", ...at });
  if (event.type === "approval.requested") return { ...made(event.tool), arguments: argumentsIn(event.summary) };
  if (event.type === "question.asked") return openQuestion(state, event.call_id) ?? made("ask_user");
  return undefined;
}

/** A question has an id of its own; it belongs to the newest call that asks. */
function openQuestion(state: FoldState, id: string): Tool | undefined {
  const asking = state.view.rows.findLast((row): row is Tool => row.kind === "tool" && row.tool === "ask_user" && row.status === "running" && row.question === null);
  if (asking) state.calls.set(id, asking.id);
  return asking;
}

/** A call of a helper: the events of the call itself are in the helper's log. */
function helperOf(state: FoldState, event: Extract<CallEvent, { type: "approval.requested" }>): Approval["helper"] {
  return event.helper ? { session: event.helper, name: state.helpers.get(event.helper) ?? "" } : null;
}

/** The status of a call that was answered. Of a helper's call, the results are in the helper's log. */
function statusAfter(row: Tool, approval: Approval, isAllowed: boolean): Tool["status"] {
  if (approval.helper) return isAllowed ? "ok" : "failed";
  return isAllowed || row.status === "asking" ? "running" : row.status;
}

/** The arguments of a call of which only the summary is known: they are the summary, or it is a command. */
const argumentsIn = (summary: string) => (summary.startsWith("{") ? summary : JSON.stringify({ command: summary }));

// An event on the timeline: its lane, its author, and its marker, if it has one.
import { callSummary } from "../../display_format";
import type { AnyEntry } from "../../fold/view_types";
import { text as interviews } from "../../strings/interviews";
import { text } from "../../strings/playback";
import { detailOf } from "../interviews/room_log";

export type MarkKind = "prompt" | "message" | "approval" | "tests" | "edit" | "command" | "change" | "end" | "undo";
export type Tone = "plain" | "ok" | "warn" | "bad" | "agent";
export type Mark = { seq: number; lane: "talk" | "edits" | "terminal" | "tests"; author: string; kind: MarkKind | ""; tone: Tone; label: string };

const field = (event: AnyEntry["event"], name: string) => (typeof event[name] === "string" ? event[name] : "");

/** The author of an event, by the rules of the server. */
export function authorOf(event: AnyEntry["event"]): string {
  if (field(event, "by")) return field(event, "by");
  if (event.type === "session.opened") return field(event, "owner") || "hutch";
  if (event.type === "message.sent") return field(event, "author") || "hutch";
  if (event.type.startsWith("file") && !field(event, "call_id")) return "";
  return field(event, "run_id") || field(event, "call_id") ? "agent" : "hutch";
}

/** The displayed author of a mark or a change. It may be unknown, if several authors were at work. */
export const authorName = (author: string, nameOf: (by: string) => string) => (author ? nameOf(author) : text.unknownAuthor);

export function markOf({ seq, event }: AnyEntry): Mark | null {
  const author = authorOf(event);
  const mark = (lane: Mark["lane"], kind: Mark["kind"], tone: Tone, label: string): Mark => ({ seq, lane, author, kind, tone, label: label.split("\n")[0]?.slice(0, 120) ?? "" });
  switch (event.type) {
    case "run.queued":
      return mark("talk", "prompt", "plain", field(event, "prompt"));
    case "message.sent":
      return mark("talk", "message", "plain", field(event, "text"));
    case "model.replied":
      return mark("talk", "", "agent", "");
    case "tool.returned":
      return mark("talk", "", event["ok"] === false ? "bad" : "agent", "");
    case "approval.requested":
      return mark("talk", "approval", "warn", text.mark.approval(callSummary(field(event, "tool"), field(event, "summary"))));
    case "question.asked":
      return mark("talk", "approval", "warn", text.mark.question(field(event, "text")));
    case "change.proposed":
      return mark("talk", "change", "ok", text.mark.change(field(event, "title")));
    case "run.ended":
      return mark("talk", "end", event["outcome"] === "done" ? "ok" : "bad", text.mark.runEnded(field(event, "outcome")));
    case "session.ended":
      return mark("talk", "end", "plain", text.mark.ended);
    case "session.rewound":
    case "changes.undone":
      return mark("talk", "undo", "warn", text.mark.undone(field(event, "title")));
    case "file.changed":
      return mark("edits", "edit", author === "agent" ? "agent" : "plain", field(event, "path"));
    case "files.changed":
      return mark("edits", "", author === "agent" ? "agent" : "plain", "");
    case "command.started":
      return mark("terminal", "command", author === "agent" ? "agent" : "plain", field(event, "command"));
    case "command.ended":
      return event["exit_code"] === 0 ? null : mark("terminal", "", "bad", "");
    case "terminal.opened":
      return mark("terminal", "", "plain", "");
    case "terminal.typed":
      return mark("terminal", "", "plain", "");
    case "debug.started":
      return mark("terminal", "command", "plain", field(event, "command"));
    case "debug.stopped":
      return mark("terminal", "command", "warn", field(event, "file") ? `${field(event, "file")}:${Number(event["line"] ?? 0)}` : field(event, "reason"));
    case "tests.run":
      return mark("tests", "tests", event["ok"] ? "ok" : "bad", text.mark.tests(Number(event["failed"] ?? 0), Number(event["passed"] ?? 0)));
    default:
      return interviews.event[event.type] ? mark("talk", "message", "plain", [interviews.event[event.type], detailOf(event)].filter(Boolean).join(": ")) : null;
  }
}

/** True if a text of the event contains these words, in any case. */
export function contains(value: unknown, words: string): boolean {
  if (typeof value === "string") return value.toLowerCase().includes(words);
  if (Array.isArray(value)) return value.some((each) => contains(each, words));
  if (value !== null && typeof value === "object") return Object.values(value).some((each) => contains(each, words));
  return false;
}

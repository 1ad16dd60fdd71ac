// The session itself: its options, pauses, undos and messages, and the notes in the conversation.
import { text } from "../strings/helper_agents_and_tries";
import { noteUndoneFiles } from "./changed_files";
import type { FoldState } from "./shared_fold_state";
import type { AnyEntry, Event } from "./view_types";

const WARNING = "warning: ";
/** Events of the room of an interview, which has pages of its own. */
const OF_INTERVIEW = /^(interview|candidate|lobby|consent|question|language|struggle|level|help|note|time|client|hidden_tests|code|rating|mark)\./;

export function foldSession(state: FoldState, entry: AnyEntry, event: Event): void {
  const { view } = state;
  switch (event.type) {
    case "session.opened":
      view.purpose = event.purpose;
      view.owner = event.owner;
      return;
    case "session.prepared":
      view.commit = event.commit;
      return;
    case "input.processed":
      if (event.refused) state.note(entry, "warn", "refused", event.kind, event.refused);
      return;
    case "session.changed":
      for (const change of event.changes) {
        if (change.name === "persona" && typeof change.after === "string") view.persona = change.after;
        if (change.name === "model" && typeof change.after === "string") view.model = change.after;
      }
      return state.note(entry, "info", "changed", event.changes.map((each) => `${each.name}: ${String(each.after ?? "—")}`).join(", "));
    case "session.paused":
      state.isPaused = true;
      return state.note(entry, "warn", "paused", "", event.by);
    case "session.resumed":
      state.isPaused = false;
      return state.note(entry, "info", "resumed", "", event.by);
    case "session.parked":
      state.isParked = true;
      view.reason = event.reason;
      return state.note(entry, "info", "parked", event.reason);
    case "session.woken":
      state.isParked = false;
      return;
    case "session.ended":
      state.isEnded = true;
      view.run = "";
      view.pending = [];
      return state.note(entry, event.outcome === "done" ? "ok" : "info", "ended", event.outcome, event.reason);
    case "session.rewound":
      state.undone.set(entry.seq, [event.to_seq, entry.seq]);
      state.markUndone(event.to_seq, entry.seq, true);
      view.redoable = true;
      noteUndoneFiles(state, entry, event);
      return state.note(entry, "warn", "undone", event.title, event.files.join("\n"));
    case "changes.undone":
      view.redoable = true;
      noteUndoneFiles(state, entry, event);
      state.undone.set(entry.seq, [event.step - 1, event.step + 1]);
      state.markUndone(event.step - 1, event.step + 1, true);
      return state.note(entry, "warn", "undone", event.title, event.files.join("\n"));
    case "session.redone": {
      const range = state.undone.get(event.undone);
      if (range) state.markUndone(range[0], range[1], false);
      state.undone.delete(event.undone);
      view.redoable = false;
      noteUndoneFiles(state, entry, event);
      return state.note(entry, "info", "redone", event.title, event.files.join("\n"));
    }
    case "conversation.copied":
      return state.note(entry, "info", "copied", event.session, String(event.events.length));
    case "message.sent":
      return state.put({ kind: "message", id: `message:${entry.seq}`, seq: entry.seq, atMs: entry.at_ms, runId: view.run, author: event.author, by: event.by, text: event.text });
    case "tries.judged":
      return state.note(entry, event.best ? "ok" : "bad", "tries", text.judged(event.best, event.reason), event.tries.map((each) => text.tryLine(each, each.name === event.best)).join("\n"));
    case "helper.started":
      state.helpers.set(event.helper, event.name);
      return state.note(entry, "info", "helperStarted", `${event.name} · ${event.task}`, "", event.helper);
    case "helper.ended":
      return state.note(entry, event.outcome === "done" ? "ok" : "warn", "helperEnded", text.ended(event), event.reason, event.helper);
    case "helper.changes_taken":
      return state.note(entry, "info", event.action === "merged" ? "helperMerged" : "helperDropped", event.name, event.files.join("\n"), event.helper);
    case "context.compacted":
      state.spend(event);
      view.meter.contextTokens = event.tokens_after;
      return state.note(entry, "info", "compacted", `${event.tokens_before}→${event.tokens_after}`, event.summary);
    case "step.reached":
      return state.note(entry, event.message.startsWith(WARNING) ? "warn" : "info", "step", event.message.replace(WARNING, ""));
    case "change.proposed":
      view.changes.push(event.change_id);
      return state.note(entry, "ok", "proposed", event.title, `${event.base} ← ${event.branch}`, event.change_id);
    case "delivery.ended":
      if (event.outcome === "proposed") return;
      return state.note(entry, event.outcome === "failed" ? "bad" : "info", "delivery", event.outcome, event.reason);
    case "review.submitted":
      return state.note(entry, event.blockers ? "warn" : "ok", "reviewed", event.title, `${event.blockers}/${event.shoulds}/${event.coulds}`, event.change_id);
    case "egress.attempted":
      if (event.allowed) return;
      return state.note(entry, "warn", "egress", `${event.host}:${event.port}`, event.reason);
    case "events.omitted":
      return state.note(entry, event.cause === "crash" ? "warn" : "bad", event.cause === "crash" ? "crashed" : "omitted", "", event.reason);
    case "snapshot.taken":
      view.snapshots.push({ number: event.snapshot, seq: entry.seq, atMs: entry.at_ms, reason: event.reason });
      return;
    default:
      if (OF_INTERVIEW.test(event.type)) return;
      return state.note(entry, "info", "unknown", event.type);
  }
}

// Texts about helpers and tries in a conversation.
import type { Event } from "../fold/view_types";
import { strings } from "../strings";

const { plural } = strings;

type Ended = Extract<Event, { type: "helper.ended" }>;
type Try = Extract<Event, { type: "tries.judged" }>["tries"][number];

const words = (outcome: string) => outcome.replace("_", " ");

export const notes = {
  tries: "Best of several tries",
  helperStarted: "Helper started",
  helperEnded: "Helper ended",
  helperMerged: "Changes merged of helper",
  helperDropped: "Changes dropped of helper",
};
export const text = {
  below: "Helper of the session above",
  nameOf: (name: string) => (name ? `helper ${name}` : "a helper"),
  open: (helper: string) => `open ${helper}`,
  ended: (event: Ended) => `${event.name} · ${words(event.outcome)} · ${plural(event.files, "file")} +${event.added} −${event.deleted}${event.tests ? ` · ${event.tests}` : ""} · ${plural(event.turns, "turn")}${event.cost_usd == null ? "" : ` · $${Number(event.cost_usd).toFixed(2)}`}`,
  judged: (best: string, reason: string) => `${best || "—"}: ${reason}`,
  tryLine: (each: Try, isBest: boolean) => `${isBest ? "★" : " "} ${each.name} · ${words(each.outcome)} · ${each.tests || "no tests"}${each.checks ? ` · ${each.checks_passed}/${each.checks} checks` : ""}${each.review ? ` · ${each.review}` : ""} · +${each.added} −${each.deleted} · ${plural(each.turns, "turn")} · ${each.why}`,
};

// A part of a long log: its end, shown before the rest is read, and older parts that a reader scrolls to.
import { Fold } from "./fold";
import type { AnyEntry, Row, View } from "./view_types";

const STARTS = new Set(["model.replied", "message.sent", "run.started", "run.queued"]);

/** The entries from the first one that begins a turn: a call whose start is missing has no row. */
function fromFirstTurn(entries: readonly AnyEntry[]): readonly AnyEntry[] {
  if ((entries[0]?.seq ?? 0) <= 1) return entries;
  const at = entries.findIndex((entry) => STARTS.has(entry.event.type));
  return at < 0 || at > entries.length / 2 ? entries : entries.slice(at);
}

export type KnownState = Pick<View, "state" | "purpose" | "owner" | "persona" | "model">;

/** A fold of the last entries of a log. The state that earlier entries give is passed in; sums over the log are unknown. */
export function foldEnd(entries: readonly AnyEntry[], known: KnownState): Fold {
  const part = fromFirstTurn(entries);
  const isAtWork = known.state === "running" || known.state === "waiting";
  const run = isAtWork ? part.findLast((entry) => typeof entry.event["run_id"] === "string")?.event["run_id"] : "";
  const fold = Fold.startingAt(part[0]?.seq ?? 1, { ...known, run: typeof run === "string" ? run : "" });
  fold.entries(part);
  return fold;
}

/** The rows of a part of a log, and the number of its first event that they show. */
export function foldOlder(entries: readonly AnyEntry[]): { rows: Row[]; from: number } {
  const part = fromFirstTurn(entries);
  const from = part[0]?.seq ?? 1;
  const fold = Fold.startingAt(from, {});
  fold.entries(part);
  return { rows: fold.view.rows, from: from <= 1 ? 0 : from };
}

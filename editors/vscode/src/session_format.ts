// The names and descriptions of sessions in the tree, the status bar and above tasks.
import type { SessionRow } from "../../../clients/typescript/src/index";
import type { Listed, Waiting } from "./session_list";
import { MAX_LABEL_CHARS } from "./limits";
import { plainText } from "./untrusted_text";

export const sessionName = (row: SessionRow): string => plainText(row.purpose.trim().split("\n", 1)[0] ?? "", MAX_LABEL_CHARS) || row.id.slice(-8);

/** A cost; replies without a known price are never shown as free. */
export function costText({ costUsd, unpriced }: Pick<Listed, "costUsd" | "unpriced">): string {
  if (costUsd === null) return unpriced > 0 ? "unpriced" : "";
  if (unpriced > 0 && costUsd === 0) return "unpriced";
  return `$${costUsd.toFixed(costUsd < 1 ? 4 : 2)}${unpriced > 0 ? " + unpriced" : ""}`;
}

export function stateText({ state, queue_position: position, last_run: last }: SessionRow): string {
  if (state === "queued" && position) return `queued, ${position === 1 ? "next" : `number ${position}`}`;
  if ((state === "idle" || state === "parked") && last) return last.outcome.replaceAll("_", " ");
  return state;
}

export function stateIcon({ state, last_run: last }: SessionRow): string {
  if (state === "running" || state === "starting") return "sync~spin";
  if (state === "waiting") return "bell-dot";
  if (state === "queued") return "clock";
  if (state === "paused") return "debug-pause";
  if (last?.outcome === "done") return "pass";
  if (last) return "warning";
  return state === "ended" ? "circle-slash" : "circle-outline";
}

export const waitingText = (waiting: Waiting, maxChars = MAX_LABEL_CHARS): string =>
  plainText(waiting.kind === "question" ? waiting.text : `${waiting.tool}: ${waiting.text}`, maxChars);

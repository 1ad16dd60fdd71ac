// The clock of an interview. It starts from the server's last time, and advances only while the clock runs.
import { useSeconds } from "../../shared/current_time";
import { text } from "../../strings/interviews";
import type { ClockState } from "./interview_api";

const LOW_MS = 5 * 60_000;

/** Minutes and seconds; hours from one hour on. */
export function duration(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  const parts = s >= 3600 ? [Math.floor(s / 3600), Math.floor(s / 60) % 60, s % 60] : [Math.floor(s / 60), s % 60];
  return parts.map((part, index) => (index ? String(part).padStart(2, "0") : String(part))).join(":");
}

/** The remaining time. `receivedMs` is the time at which the clock was received, `heardMs` that of the last contact, if that matters. */
export function remainingNow(clock: ClockState, receivedMs: number, now: number, standsSinceMs = 0): { left: number; question: number | null; runs: boolean } {
  const runs = clock.runs && !standsSinceMs;
  const until = standsSinceMs ? Math.max(receivedMs, standsSinceMs) : now;
  const passed = clock.runs ? Math.max(0, until - receivedMs) : 0;
  const question = clock.question_remaining_ms;
  return { left: Math.max(0, clock.remaining_ms - passed), question: question === null ? null : Math.max(0, question - passed), runs };
}

type Props = { clock: ClockState; receivedMs: number; standsSinceMs?: number; large?: boolean };

export function InterviewClock({ clock, receivedMs, standsSinceMs = 0, large = false }: Props) {
  const now = useSeconds(true);
  const { left, question, runs } = remainingNow(clock, receivedMs, Math.max(now, receivedMs), standsSinceMs);
  const isLow = left < LOW_MS || (question !== null && question < LOW_MS);
  return (
    <span role="timer" aria-label={text.room.clock} className="inline-flex items-baseline gap-2 whitespace-nowrap">
      <span className={`font-semibold ${large ? "text-16" : "text-14"} ${isLow ? "text-warn" : "text-t1"}`} data-clock={runs ? "runs" : "stands"}>{duration(left)}</span>
      <span className="text-12 text-t3">{text.room.left}</span>
      {question !== null && question < left && <span className={`text-12 ${question < LOW_MS ? "text-warn" : "text-t2"}`}>{text.room.leftHere(duration(question))}</span>}
      {!runs && <span className="text-12 text-warn">{text.room.clockStands}</span>}
    </span>
  );
}

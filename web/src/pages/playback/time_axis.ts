// The time axis of a playback. Pauses longer than two seconds are cut to two; every place of the page uses this one axis,
// so that markers, gaps and the playhead agree.
import type { AnyEntry } from "../../fold/view_types";

export const IDLE_MS = 2000;
const STEP_MS = 0.01; // between events of one instant, so that each has a place of its own
export type Gap = { from: number; to: number; realMs: number };

export class Axis {
  readonly positions: number[] = []; // of entry seq - 1, in ms
  readonly times: number[] = [];
  readonly gaps: Gap[] = [];

  add(entry: AnyEntry): void {
    const last = this.positions.length - 1;
    const before = this.positions[last];
    const beforeMs = this.times[last];
    this.times.push(entry.at_ms);
    if (before === undefined || beforeMs === undefined) {
      this.positions.push(0);
      return;
    }
    const realMs = Math.max(0, entry.at_ms - beforeMs);
    if (realMs > IDLE_MS) this.gaps.push({ from: before, to: before + IDLE_MS, realMs });
    this.positions.push(before + Math.max(STEP_MS, Math.min(realMs, IDLE_MS)));
  }

  get end(): number {
    return this.positions.at(-1) ?? 0;
  }

  /** The number of the last event at this position or before it. */
  seqAt(position: number): number {
    let [low, high] = [0, this.positions.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.positions[middle] ?? 0) <= position) low = middle + 1;
      else high = middle;
    }
    return Math.max(low, Math.min(1, this.positions.length));
  }

  positionOf(seq: number): number {
    return this.positions[Math.max(1, Math.min(seq, this.positions.length)) - 1] ?? 0;
  }

  /** The clock at a position; a cut pause passes faster. */
  timeAt(position: number): number {
    const seq = this.seqAt(position);
    const start = this.positions[seq - 1] ?? 0;
    const at = this.times[seq - 1] ?? 0;
    const next = this.positions[seq];
    const nextAt = this.times[seq];
    if (next === undefined || nextAt === undefined || next <= start) return at;
    return at + ((Math.max(start, position) - start) / (next - start)) * (nextAt - at);
  }
}

// Where a chart shows a moment. The value of a step is drawn at its start, and its bar around it.

/** The length of a step in seconds. */
export function stepLengthS({ times_ms, from_ms, to_ms }: { times_ms: number[]; from_ms: number; to_ms: number }): number {
  return ((times_ms[1] ?? to_ms) - (times_ms[0] ?? from_ms)) / 1000;
}

/** The range of the x axis: half a step more on both sides, for the first and the last bar. */
export const rangeOf = (min: number, max: number, stepS: number): [number, number] => [min - stepS / 2, max + stepS / 2];

/** The place of a moment on the x axis: within the bar of its step, so that the newest step can have marks too. */
export const placeOf = (atMs: number, stepS: number): number => atMs / 1000 - stepS / 2;

// Orders the tasks of a build by what they need.

export type Tasks = Record<string, string[]>;

/** All tasks, each after those that it needs; of several that could be next, the alphabetically first. */
export function buildOrder(tasks: Tasks): string[] {
  throw new Error("not written yet");
}

/** All tasks in waves: those of a wave need only tasks of earlier waves. */
export function buildWaves(tasks: Tasks): string[][] {
  throw new Error("not written yet");
}

// Merges a change of a task with a newer revision. Fields that both sides changed differently are conflicts for the user.
import type { Criterion, Task, TaskValues } from "./task_values_filter_and_order";
import { valueOf } from "./task_values_filter_and_order";

export type Merge = { values: TaskValues; conflicts: string[] }; // what is left to store, and the fields that both have changed

export const isSame = (one: unknown, other: unknown) => JSON.stringify(one ?? "") === JSON.stringify(other ?? "");

/** `before` are the values that the person had read, `theirs` is the task as it is now. */
export function mergeValues(before: TaskValues, mine: TaskValues, theirs: Task): Merge {
  const values: Record<string, unknown> = {};
  const conflicts: string[] = [];
  for (const [field, desired] of Object.entries(mine)) {
    const old = before[field as keyof TaskValues];
    const now = valueOf(theirs, field);
    const merged = field === "criteria" ? mergeCriteria(old as Criterion[], desired as Criterion[], now as Criterion[])
      : field === "labels" || field === "depends_on" ? mergeNames(old as string[], desired as string[], now as string[])
      : desired;
    if (isSame(merged, now)) continue; // it is stored already
    if (merged === desired && !isSame(now, old) && !isSame(desired, old)) conflicts.push(field);
    values[field] = merged;
  }
  return { values: values as TaskValues, conflicts };
}

function mergeNames(before: string[], mine: string[], theirs: string[]): string[] {
  const added = mine.filter((each) => !before.includes(each));
  const removed = before.filter((each) => !mine.includes(each));
  return [...new Set([...theirs.filter((each) => !removed.includes(each)), ...added])].sort();
}

/** Merged entry by entry: their list with my ticked, added and removed entries. */
function mergeCriteria(before: Criterion[], mine: Criterion[], theirs: Criterion[]): Criterion[] {
  const find = (list: Criterion[], text: string) => list.find((each) => each.text === text);
  const remaining = theirs.filter((each) => find(mine, each.text) ?? !find(before, each.text));
  const ticked = remaining.map((each) => {
    const desired = find(mine, each.text);
    return desired && desired.done !== find(before, each.text)?.done ? desired : each;
  });
  const added = mine.filter((each) => !find(before, each.text) && !find(theirs, each.text));
  return [...ticked, ...added];
}

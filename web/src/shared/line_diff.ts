// The difference of two texts by lines, as a file of a diff. For texts that the page has; the server makes all others.
import { commonLines } from "./common_line_pairs";
import { type DiffLine, type FileDiff, type Hunk, markWords } from "./patch_parser";

const AROUND = 3;
const MAX_COMPARED = 4_000_000; // lines of one part times lines of the other; beyond it the part is replaced as a whole

export type Step = { sign: "+" | "-" | " "; old: number; new: number }; // places, from 0

export function stepsOf(old: readonly string[], next: readonly string[]): Step[] {
  let first = 0;
  while (first < old.length && first < next.length && old[first] === next[first]) first += 1;
  let last = 0;
  while (last < old.length - first && last < next.length - first && old[old.length - 1 - last] === next[next.length - 1 - last]) last += 1;
  const steps: Step[] = [];
  for (let at = 0; at < first; at += 1) steps.push({ sign: " ", old: at, new: at });
  let [i, j] = [first, first];
  const [oldEnd, newEnd] = [old.length - last, next.length - last];
  for (const [a, b] of [...common(old.slice(first, oldEnd), next.slice(first, newEnd)), [oldEnd - first, newEnd - first] as const]) {
    while (i < first + a) steps.push({ sign: "-", old: i++, new: j });
    while (j < first + b) steps.push({ sign: "+", old: i, new: j++ });
    if (i < oldEnd && j < newEnd) steps.push({ sign: " ", old: i++, new: j++ });
  }
  while (i < old.length) steps.push({ sign: " ", old: i++, new: j++ });
  return steps;
}

const common = (old: readonly string[], next: readonly string[]) => (old.length * next.length > MAX_COMPARED ? [] : commonLines(old, next));

export const linesOf = (text: string) => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

export function diffTexts(path: string, before: string, after: string): FileDiff {
  const [old, next] = [linesOf(before), linesOf(after)];
  const steps = stepsOf(old, next);
  const file: FileDiff = { path, oldPath: path, hunks: [], added: 0, deleted: 0, note: "", isNew: old.length === 0, isGone: next.length === 0 };
  let hunk: Hunk | undefined;
  // Each line is in a hunk if a changed one is near.
  const near = steps.map(() => false);
  steps.forEach((step, index) => {
    if (step.sign === " ") return;
    near.fill(true, Math.max(0, index - AROUND), index + AROUND + 1);
    file[step.sign === "+" ? "added" : "deleted"] += 1;
  });
  steps.forEach((step, index) => {
    if (!near[index]) {
      hunk = undefined;
      return;
    }
    if (!hunk) file.hunks.push((hunk = { header: "", lines: [] }));
    hunk.lines.push(line(step, old, next));
  });
  for (const each of file.hunks) markWords(each.lines);
  return file;
}

function line(step: Step, old: readonly string[], next: readonly string[]): DiffLine {
  const text = (step.sign === "-" ? old[step.old] : next[step.new]) ?? "";
  return { sign: step.sign, text, old: step.sign === "+" ? 0 : step.old + 1, new: step.sign === "-" ? 0 : step.new + 1, from: 0, to: 0 };
}

// The smallest useful difference of two texts, as replacements. Yjs merges by characters, so a replacement that covers
// more than was changed would take text of others with it.
import { commonLines } from "../../../shared/common_line_pairs";
export type Replacement = { from: number; to: number; insert: string };

const MAX_COMPARED = 2_000_000; // lines of one part times lines of the other; beyond it the part is replaced as a whole

/** The replacements that turn one text into the other, in order, at offsets of the first. */
export function findReplacements(before: string, after: string): Replacement[] {
  if (before === after) return [];
  const old = before.split(/(?<=\n)/);
  const next = after.split(/(?<=\n)/);
  let first = 0;
  while (first < old.length && first < next.length && old[first] === next[first]) first += 1;
  let last = 0;
  while (last < old.length - first && last < next.length - first && old[old.length - 1 - last] === next[next.length - 1 - last]) last += 1;
  const oldPart = old.slice(first, old.length - last);
  const newPart = next.slice(first, next.length - last);
  let at = old.slice(0, first).join("").length;
  if (oldPart.length * newPart.length > MAX_COMPARED) return [trimmed(at, oldPart.join(""), newPart.join(""))];
  const found: Replacement[] = [];
  let [i, j] = [0, 0];
  for (const [oldLine, newLine] of [...commonLines(oldPart, newPart), [oldPart.length, newPart.length] as const]) {
    const removed = oldPart.slice(i, oldLine).join("");
    const added = newPart.slice(j, newLine).join("");
    if (removed || added) found.push(trimmed(at, removed, added));
    at += removed.length + (oldPart[oldLine]?.length ?? 0);
    [i, j] = [oldLine + 1, newLine + 1];
  }
  return found;
}

/** Transfers the replacements of one text to another version of it, without those that it contains already. */
export function transferReplacements(base: string, theirs: string, mine: Replacement[]): Replacement[] {
  const changed = findReplacements(base, theirs);
  const moved = (offset: number) => {
    let shift = 0;
    for (const { from, to, insert } of changed) {
      if (to <= offset && (from < to || to < offset)) shift += insert.length - (to - from);
      else if (from < offset) return from + shift + Math.min(offset - from, insert.length);
      else break;
    }
    return offset + shift;
  };
  return mine.flatMap(({ from, to, insert }) => {
    const start = moved(from);
    const same = changed.find((each) => each.from === from && each.to === to && insert.startsWith(each.insert));
    if (same) { // they have the beginning of it, or all
      const rest = insert.slice(same.insert.length);
      return rest ? [{ from: start + same.insert.length, to: start + same.insert.length, insert: rest }] : [];
    }
    return [{ from: start, to: Math.max(start, moved(to)), insert }];
  });
}

function trimmed(at: number, old: string, next: string): Replacement {
  let first = 0;
  while (first < old.length && first < next.length && old[first] === next[first]) first += 1;
  if (first > 0 && isFirstHalf(old.charCodeAt(first - 1))) first -= 1;
  let last = 0;
  while (last < old.length - first && last < next.length - first && old[old.length - 1 - last] === next[next.length - 1 - last]) last += 1;
  if (last > 0 && isSecondHalf(old.charCodeAt(old.length - last))) last -= 1;
  return { from: at + first, to: at + old.length - last, insert: next.slice(first, next.length - last) };
}

// Of a character outside the basic plane. Half of one cannot be sent.
const isFirstHalf = (code: number) => code >= 0xd800 && code < 0xdc00;
const isSecondHalf = (code: number) => code >= 0xdc00 && code < 0xe000;

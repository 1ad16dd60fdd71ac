// Review state that only this browser has: viewed marks, and comments that were not sent. It survives a reload.
import { useState } from "react";
import type { FileDiff } from "../../shared/patch_parser";
import { type Place, idOf } from "./review_lines";

function read<T>(key: string, otherwise: T): T {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null") as T ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** A short hash of the shown content of a file. */
export function stampOf(file: FileDiff): string {
  let hash = 2166136261;
  for (const hunk of file.hunks) for (const line of hunk.lines) for (const char of line.sign + line.text) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 16777619);
  return (hash >>> 0).toString(36);
}

/** Viewed paths, each with the hash of its content then: a file that changes again is not viewed. */
export function useViewed(change: string, stamps: ReadonlyMap<string, string>): [ReadonlySet<string>, (path: string) => void] {
  const key = `hutch.viewed.${change}`;
  const [marks, setMarks] = useState<Record<string, string>>(() => read(key, {}));
  const viewed = new Set(Object.entries(marks).filter(([path, stamp]) => stamps.get(path) === stamp).map(([path]) => path));
  return [viewed, (path) => {
    const { [path]: before, ...rest } = marks;
    const stamp = stamps.get(path) ?? "";
    const next = before === stamp ? rest : { ...rest, [path]: stamp };
    localStorage.setItem(key, JSON.stringify(next));
    setMarks(next);
  }];
}

type Drafts = Record<string, string>;
const draftKey = (change: string) => `hutch.comments.${change}`;
const nameOf = (path: string, place: Place) => `${path}#${idOf(place)}`;

export const draftOf = (change: string, path: string, place: Place) => read<Drafts>(draftKey(change), {})[nameOf(path, place)] ?? "";

export function keepDraft(change: string, path: string, place: Place, body: string): void {
  const next = { ...read<Drafts>(draftKey(change), {}), [nameOf(path, place)]: body };
  if (!body) Reflect.deleteProperty(next, nameOf(path, place));
  if (Object.keys(next).length) localStorage.setItem(draftKey(change), JSON.stringify(next));
  else localStorage.removeItem(draftKey(change));
}

/** Lines of a file on which a comment was begun. */
export function draftPlaces(change: string, path: string): Place[] {
  return Object.keys(read<Drafts>(draftKey(change), {})).flatMap((name) => {
    const found = /^(.*)#([LR])(\d+)$/s.exec(name);
    return found?.[1] === path ? [{ side: found[2] === "L" ? ("old" as const) : ("new" as const), line: Number(found[3]) }] : [];
  });
}

// The diff as one flat list of rows of known heights, so that 30,000 lines are as quick as thirty.
import type { DiffLine, FileDiff, Hunk } from "../../../shared/patch_parser";

export type Side = "old" | "new";
export type Comment = { path: string; side: Side; from: number; to: number; quoted: string[]; text: string };
/** Lines that a comment is being written on. */
export type Draft = { path: string; side: Side; from: number; to: number };
export type ChangeRow = { key: string; file: FileDiff } & (
  | { kind: "file" | "note" }
  | { kind: "hunk"; index: number; hunk: Hunk }
  | { kind: "line"; line: DiffLine }
  | { kind: "pair"; left: DiffLine | null; right: DiffLine | null }
  | { kind: "comment"; comment: Comment }
  | { kind: "form"; draft: Draft }
);

export const sideOf = (line: DiffLine): Side => (line.sign === "-" ? "old" : "new");
export const numberOf = (line: DiffLine, side: Side = sideOf(line)) => (side === "old" ? line.old : line.new);
export const hunkKey = (path: string, index: number) => `${path}#${index}`;

type Options = { isOpen: (path: string) => boolean; isSplit: boolean; comments: readonly Comment[]; draft: Draft | null };

export function changeRows(files: readonly FileDiff[], { isOpen, isSplit, comments, draft }: Options): ChangeRow[] {
  const rows: ChangeRow[] = [];
  for (const file of files) {
    rows.push({ kind: "file", key: `file:${file.path}`, file });
    if (!isOpen(file.path)) continue;
    if (file.note || file.hunks.length === 0) rows.push({ kind: "note", key: `note:${file.path}`, file });
    const mine = comments.filter((each) => each.path === file.path);
    const below = (line: DiffLine | null, side: Side) => {
      if (!line) return;
      const number = numberOf(line, side);
      mine.forEach((comment, index) => {
        if (comment.side === side && comment.to === number) rows.push({ kind: "comment", key: `comment:${file.path}:${side}:${number}:${index}`, file, comment });
      });
      if (draft?.path === file.path && draft.side === side && draft.to === number) rows.push({ kind: "form", key: "form", file, draft });
    };
    file.hunks.forEach((hunk, index) => {
      if (hunk.header || index > 0) rows.push({ kind: "hunk", key: `hunk:${hunkKey(file.path, index)}`, file, index, hunk });
      if (isSplit) {
        for (const [at, { left, right }] of pairs(hunk.lines).entries()) {
          rows.push({ kind: "pair", key: `${hunkKey(file.path, index)}:${at}`, file, left, right });
          if (left?.sign === "-") below(left, "old");
          below(right, "new");
        }
      } else {
        hunk.lines.forEach((line, at) => {
          rows.push({ kind: "line", key: `${hunkKey(file.path, index)}:${at}`, file, line });
          below(line, sideOf(line));
        });
      }
    });
  }
  return rows;
}

/** Lines side by side: deleted ones beside the added ones that replace them. */
export function pairs(lines: readonly DiffLine[]): { left: DiffLine | null; right: DiffLine | null }[] {
  const found: { left: DiffLine | null; right: DiffLine | null }[] = [];
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    if (!line) break;
    if (line.sign === " ") {
      found.push({ left: line, right: line });
      at += 1;
      continue;
    }
    const removed: DiffLine[] = [];
    const added: DiffLine[] = [];
    for (let next = lines[at]; next?.sign === "-"; next = lines[(at += 1)]) removed.push(next);
    for (let next = lines[at]; next?.sign === "+"; next = lines[(at += 1)]) added.push(next);
    for (let index = 0; index < Math.max(removed.length, added.length); index += 1) found.push({ left: removed[index] ?? null, right: added[index] ?? null });
  }
  return found;
}

/** The lines of a file from one number to another, as a comment quotes them. */
export function quoted(file: FileDiff, { side, from, to }: Draft): string[] {
  const inside = (line: DiffLine) => (side === "old" ? line.sign !== "+" : line.sign !== "-") && numberOf(line, side) >= from && numberOf(line, side) <= to;
  return file.hunks.flatMap((hunk) => hunk.lines.filter(inside).map((line) => line.text));
}

/** The text for the agent. */
export function messageOf(comments: readonly Comment[]): string {
  return comments.map(({ path, side, from, to, quoted: lines, text }) => {
    const place = `${path}:${from === to ? from : `${from}-${to}`}${side === "old" ? " (before the change)" : ""}`;
    return `${place}: ${text}\n${lines.map((line) => `> ${line.slice(0, 500)}`).join("\n")}`;
  }).join("\n\n");
}

/** A patch that takes back these hunks of a file. */
export function reversePatch(file: FileDiff, hunks: readonly number[]): string {
  const chosen = hunks.flatMap((index) => file.hunks[index] ?? []);
  const parts = chosen.map((hunk) => {
    const count = (sign: "+" | "-") => hunk.lines.filter((line) => line.sign !== sign).length;
    const start = (side: Side) => hunk.lines.map((line) => numberOf(line, side)).find((number) => number > 0) ?? 0;
    const flipped = hunk.lines.map(({ sign, text }) => `${sign === "+" ? "-" : sign === "-" ? "+" : " "}${text}`);
    return `@@ -${start("new")},${count("-")} +${start("old")},${count("+")} @@\n${flipped.join("\n")}\n`;
  });
  const from = file.isGone ? "/dev/null" : `a/${file.path}`;
  const to = file.isNew ? "/dev/null" : `b/${file.oldPath || file.path}`;
  return `--- ${from}\n+++ ${to}\n${parts.join("")}`;
}

type Summary = { path: string; added?: number | null; deleted?: number | null };

/** All files of a difference. The patch may be cut: files that it lacks are in `later`, without their lines. */
export function filesOf(patch: FileDiff[], listed: readonly Summary[], isCut: boolean): { files: FileDiff[]; later: Set<string> } {
  const known = new Map(patch.map((file) => [file.path, file]));
  const last = isCut ? patch.at(-1)?.path : undefined;
  const later = new Set<string>();
  const files = listed.map((each): FileDiff => {
    const found = known.get(each.path);
    known.delete(each.path);
    if (found && found.path !== last) return found;
    later.add(each.path);
    return { path: each.path, oldPath: "", hunks: [], added: each.added ?? 0, deleted: each.deleted ?? 0, note: "", isNew: false, isGone: false };
  });
  return { files: [...files, ...[...known.values()].filter((file) => file.path !== last)], later };
}

// A unified diff as data: files, hunks, lines with their numbers, and the words that differ.
export type DiffLine = { sign: "+" | "-" | " "; text: string; old: number; new: number; from: number; to: number };
export type Hunk = { header: string; lines: DiffLine[] };
export type FileDiff = { path: string; oldPath: string; hunks: Hunk[]; added: number; deleted: number; note: string; isNew: boolean; isGone: boolean };

const DIFF_GIT = /^diff --git ("(?:[^"\\]|\\.)*"|a\/.*?) ("(?:[^"\\]|\\.)*"|b\/.*)$/;
const ESCAPES: Record<string, string> = { a: "\x07", b: "\b", t: "\t", n: "\n", v: "\v", f: "\f", r: "\r" };

export function parsePatch(patch: string): FileDiff[] {
  const files: FileDiff[] = [];
  let file: FileDiff | undefined;
  let hunk: Hunk | undefined;
  let [oldLine, newLine, oldLeft, newLeft] = [0, 0, 0, 0];
  for (const line of patch.split("\n")) {
    if (hunk && file && (oldLeft > 0 || newLeft > 0)) {
      const sign = line[0] === "+" || line[0] === "-" ? line[0] : line[0] === "\\" ? "" : " ";
      if (sign === "") continue;
      hunk.lines.push({ sign, text: line.slice(1), old: sign === "+" ? 0 : oldLine, new: sign === "-" ? 0 : newLine, from: 0, to: 0 });
      if (sign !== "+") [oldLine, oldLeft] = [oldLine + 1, oldLeft - 1];
      if (sign !== "-") [newLine, newLeft] = [newLine + 1, newLeft - 1];
      if (sign === "+") file.added += 1;
      if (sign === "-") file.deleted += 1;
      continue;
    }
    const at = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$/.exec(line);
    if (at && file) {
      [oldLine, oldLeft, newLine, newLeft] = [Number(at[1]), Number(at[2] ?? 1), Number(at[3]), Number(at[4] ?? 1)];
      hunk = { header: (at[5] ?? "").trim(), lines: [] };
      file.hunks.push(hunk);
    } else if (line.startsWith("diff --git ")) {
      const paths = DIFF_GIT.exec(line);
      file = { path: readPath(paths?.[2] ?? line.slice(11)), oldPath: readPath(paths?.[1] ?? ""), hunks: [], added: 0, deleted: 0, note: "", isNew: false, isGone: false };
      hunk = undefined;
      files.push(file);
    } else if (file && line.startsWith("+++ ")) {
      if (line === "+++ /dev/null") file.isGone = true;
      else file.path = readPath(line.slice(4));
    } else if (file && line === "--- /dev/null") {
      file.isNew = true;
    } else if (file && /^(Binary files|GIT binary patch)/.test(line)) {
      file.note = "binary";
    }
  }
  for (const each of files) for (const part of each.hunks) markWords(part.lines);
  return files;
}

/** A path as git writes it: with a/ or b/ before it, with a tab after it if it has spaces, in quotes with the bytes of
 * unusual characters as octal numbers. */
function readPath(written: string): string {
  const path = written.replace(/\t$/, "");
  if (!path.startsWith('"') || !path.endsWith('"')) return path.replace(/^[ab]\//, "");
  const bytes: number[] = [];
  for (const part of path.slice(1, -1).match(/\\[0-7]{3}|\\.|[^\\]+/g) ?? []) {
    if (/^\\[0-7]/.test(part)) bytes.push(parseInt(part.slice(1), 8));
    else bytes.push(...new TextEncoder().encode(part.startsWith("\\") ? (ESCAPES[part.slice(1)] ?? part.slice(1)) : part));
  }
  return new TextDecoder().decode(new Uint8Array(bytes)).replace(/^[ab]\//, "");
}

/** Pair deleted with added lines of one block, and mark where each pair differs. */
export function markWords(lines: DiffLine[]): void {
  for (let at = 0; at < lines.length; ) {
    const removed = takeWhile(lines, at, "-");
    const added = takeWhile(lines, at + removed.length, "+");
    if (removed.length > 0 && removed.length === added.length) {
      removed.forEach((before, index) => {
        const after = added[index];
        if (after) markPair(before, after);
      });
    }
    at += Math.max(1, removed.length + added.length);
  }
}

function takeWhile(lines: DiffLine[], from: number, sign: "+" | "-"): DiffLine[] {
  let end = from;
  while (lines[end]?.sign === sign) end += 1;
  return lines.slice(from, end);
}

function markPair(before: DiffLine, after: DiffLine): void {
  const [a, b] = [before.text, after.text];
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  if (start + end < shorter * 0.3) return; // two lines that have little in common
  [before.from, before.to, after.from, after.to] = [start, a.length - end, start, b.length - end];
}

/** Added and deleted lines of an edit that is given by its old and new text. */
export function countEdit(before: string, after: string): { added: number; deleted: number } {
  const [a, b] = [before ? before.split("\n") : [], after ? after.split("\n") : []];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  return { added: b.length - start - end, deleted: a.length - start - end };
}

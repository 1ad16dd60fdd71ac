// The text before a change, from the text after it and the patch in git's format.
const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

/** Undo the patch of one file. Null if the text is not what the patch leads to. */
export function textBefore(after: string, patch: string): string | null {
  const lines = after === "" ? [] : after.split("\n");
  const ends = after.endsWith("\n");
  if (ends) lines.pop();
  let endsBefore: boolean | null = null;
  const found: string[] = [];
  let done = 0; // lines of the text after
  const source = patch.split("\n");
  let position = source.findIndex((line) => HUNK.test(line));
  if (position < 0) return null;
  while (position < source.length) {
    const header = HUNK.exec(source[position] ?? "");
    position += 1;
    if (!header) continue;
    let [oldLeft, newLeft] = [Number(header[2] ?? 1), Number(header[4] ?? 1)];
    const start = Number(header[3]) - (newLeft > 0 ? 1 : 0);
    if (start < done || start > lines.length) return null;
    found.push(...lines.slice(done, start));
    done = start;
    let last = "";
    while (oldLeft > 0 || newLeft > 0 || source[position]?.startsWith("\\")) {
      const line = source[position];
      if (line === undefined) return null;
      const [mark, text] = [line[0] ?? "", line.slice(1)];
      if (mark === "\\") {
        if (last !== "+") endsBefore = false;
      } else {
        if (mark !== "-" && mark !== "+" && mark !== " ") return null;
        if (mark !== "-") {
          if (lines[done] !== text) return null;
          done += 1;
          newLeft -= 1;
        }
        if (mark !== "+") {
          found.push(text);
          oldLeft -= 1;
        }
        last = mark;
      }
      position += 1;
    }
    if (oldLeft < 0 || newLeft < 0) return null;
    if (endsBefore === null && done === lines.length) endsBefore = true; // this hunk has the last line
  }
  if (done < lines.length) {
    found.push(...lines.slice(done));
    endsBefore = ends;
  }
  return found.join("\n") + (found.length > 0 && (endsBefore ?? ends) ? "\n" : "");
}

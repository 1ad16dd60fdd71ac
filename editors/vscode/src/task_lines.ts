// The tasks of a TASKS.md, as docs/tasks.md describes them.
export type TaskLine = { line: number; key: string; title: string; criteria: string[]; isOpen: boolean };

const BOX = /^([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+\[(.)\][ \t]+(.+?)[ \t]*$/;
const FENCE = /^[ \t]*(`{3,}|~{3,})/;
const KEY = /^(?:\*\*|`|\[)?([A-Z][A-Z0-9]*-\d+(?:\.\d+)?|T\d{3,}|#\d+)(?:\*\*|`|\])?[:.]?[ \t]+/;
const OWNER_OR_LABEL = /[ \t]+[@#][\w./:+-]+$/;
const HIDDEN = /<!--.*?(?:-->|$)/g;
const CLOSED_STATES = /hutch:[^>]*\bstatus=(?:done|cancelled)\b/;
const OPEN_MARKS = " /~!";

export function taskLines(text: string): TaskLine[] {
  const tasks: { task: TaskLine; indent: number }[] = [];
  let fence = "";
  let isComment = false;
  const lines = text.replace(/^\ufeff/, "").split(/\r\n|\n|\r/);
  const start = lines[0] === "---" ? lines.indexOf("---", 1) + 1 : 0; // after front matter
  lines.forEach((whole, line) => {
    if (line < start) return;
    if (isComment) {
      isComment = !whole.includes("-->");
      return;
    }
    const mark = FENCE.exec(whole)?.[1] ?? "";
    if (fence) {
      if (mark.startsWith(fence) && whole.trim() === mark) fence = "";
      return;
    }
    if (mark) {
      fence = mark;
      return;
    }
    isComment = whole.lastIndexOf("<!--") > whole.lastIndexOf("-->");
    const [, lead = "", box = "", rest = ""] = BOX.exec(whole) ?? [];
    if (!box) return;
    const indent = lead.replaceAll("\t", "    ").length;
    const words = rest.replace(HIDDEN, "").trim();
    const parent = tasks.at(-1); // a box below a task is one of its criteria, however deep
    if (parent && indent > parent.indent) {
      parent.task.criteria.push(words);
      return;
    }
    const key = KEY.exec(words)?.[1] ?? "";
    let title = words.replace(KEY, "");
    while (OWNER_OR_LABEL.test(title)) title = title.replace(OWNER_OR_LABEL, "");
    if (title) tasks.push({ indent, task: { line, key, title, criteria: [], isOpen: OPEN_MARKS.includes(box) && !CLOSED_STATES.test(rest) } });
  });
  return tasks.map((each) => each.task);
}

/** The prompt that gives a task to an agent. */
export function taskPrompt({ key, title, criteria }: TaskLine, path: string): string {
  const heading = `${key ? `${key}: ` : ""}${title}`;
  const list = criteria.length > 0 ? `\n\nIt is done when:\n${criteria.map((each) => `- ${each}`).join("\n")}` : "";
  return `${heading}${list}\n\nThis is a task of ${path}. Leave that file as it is.`;
}

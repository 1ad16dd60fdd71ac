// Rows as the conversation shows them: neighbouring reads and searches become one line, and steps of Hutch another.
import type { Note, Row, Tool } from "../../fold/view_types";

type Group = { kind: "group"; id: string; rows: Tool[] } | { kind: "steps"; id: string; rows: Note[] };
export type Item = { kind: "row"; id: string; row: Row } | Group;

const READS = new Set(["read_file", "list_directory", "glob", "grep"]);
export const isSearch = (tool: string) => tool === "glob" || tool === "grep";

const groups = (row: Row): row is Tool => row.kind === "tool" && READS.has(row.tool) && row.status === "ok" && row.approval === null;

const isStep = (row: Row): row is Note => row.kind === "note" && row.what === "step" && row.tone === "info" && row.detail === "";

/** The group with which a row forms one line; empty if it has none. */
const groupOf = (row: Row): Group["kind"] | "" => (groups(row) ? "group" : isStep(row) ? "steps" : "");

/** The items of rows, and the rows that they were made of. */
export type Items = { items: Item[]; starts: number[]; rows: Row[] };
export const NO_ITEMS: Items = { items: [], starts: [], rows: [] };

/** Make the items again from the first row that differs: a long conversation changes at its end. */
export function itemsOf(rows: readonly Row[], before: Items): Items {
  let same = 0;
  while (same < rows.length && rows[same] === before.rows[same]) same += 1;
  if (same === rows.length && same === before.rows.length) return before;
  let first = before.starts.length;
  while (first > 0 && (before.starts[first - 1] ?? 0) >= same) first -= 1;
  if (first > 0) first -= 1; // the last group may go on
  const known = new Map(before.items.slice(first).map((item) => [item.id, item]));
  const items = before.items.slice(0, first);
  const starts = before.starts.slice(0, first);
  for (let at = before.starts[first] ?? 0; at < rows.length; ) {
    const row = rows[at];
    if (!row) break;
    let end = at;
    const kind = groupOf(row);
    for (let next = rows[end]; kind && next && groupOf(next) === kind && next.runId === row.runId; next = rows[end]) end += 1;
    starts.push(at);
    if (kind && end - at > 1) {
      const members = rows.slice(at, end);
      const id = `group:${row.id}`;
      const old = known.get(id);
      const isSame = old?.kind === kind && old.rows.length === members.length && old.rows.every((each, index) => each === members[index]);
      items.push(isSame ? old : ({ kind, id, rows: members } as Group));
      at = end;
    } else {
      const old = known.get(row.id);
      items.push(old?.kind === "row" && old.row === row ? old : { kind: "row", id: row.id, row });
      at += 1;
    }
  }
  return { items, starts, rows: [...rows] };
}

/** Everything that can be read in an item, for the search. */
export function textOf(item: Item): string {
  return item.kind === "row" ? textOfRow(item.row) : item.rows.map(textOfRow).join("\n");
}

function textOfRow(row: Row): string {
  switch (row.kind) {
    case "prompt": case "message": return row.text;
    case "reply": return `${row.text}\n${row.thinking}`;
    case "tool": return [row.tool, row.arguments, row.text, row.output.pieces.join(""), row.question?.text, row.question?.answer].join("\n");
    case "command": return `${row.command.text}\n${row.output.pieces.join("")}`;
    case "tests": return [row.tests.command, row.tests.reason, ...row.tests.cases.map((each) => each.name)].join("\n");
    case "note": return `${row.text}\n${row.detail}`;
  }
}

/** A command that ended badly is a failure, although the tool itself worked. */
export function hasFailed(row: Tool): boolean {
  const command = row.command;
  const commandFailed = command?.ended === true && !command.background && (command.timedOut || command.signal !== null || (command.exitCode ?? 0) !== 0);
  return row.status === "failed" || commandFailed || (row.tests !== null && !row.tests.running && !row.tests.ok);
}

export function argumentsOf(row: Tool): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(row.arguments || "{}");
    return typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : {};
  } catch {
    return {}; // still being written
  }
}

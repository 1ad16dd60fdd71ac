// Parses the edit of a file from a call of the agent, while the model still writes the call.
import type { Tool } from "../../../fold/view_types";
import { parsePartial } from "../../../fold/partial_json";
import { findReplacements } from "./text_difference";

/** New text in place of a part of the file. While it is open the model may write more of it. */
export type Ghost = { from: number; to: number; text: string; isOpen: boolean };
export type AgentEdit = { row: string; path: string; tool: string; args: Record<string, unknown>; open: (string | number)[] | null };

const EDITS = new Set(["write_file", "edit_file"]);
const AT_WORK = new Set(["writing", "next", "asking", "running"]);

/** True for an edit of this session. That of a helper is in the files of the helper. */
export const isEdit = (row: Tool) => EDITS.has(row.tool) && !row.approval?.helper;
export const isAtWork = (row: Tool) => isEdit(row) && AT_WORK.has(row.status);

/** The edit of a row whose path is complete. */
export function editOf(row: Tool): AgentEdit | null {
  const { value, open } = parsePartial(row.arguments);
  const args = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const path = args["path"];
  if (typeof path !== "string" || !path || (open?.length === 1 && open[0] === "path")) return null;
  return { row: row.id, path: inWorkspace(path), tool: row.tool, args, open };
}

/** A path as the tree has it. */
export const inWorkspace = (path: string) => path.replace(/^(\/workspace\/|\.\/)+/, "");

export function ghostsOf(edit: AgentEdit, text: string): Ghost[] {
  if (edit.tool === "write_file") return ghostsOfWrite(edit, text);
  const edits = Array.isArray(edit.args["edits"]) ? (edit.args["edits"] as unknown[]) : [];
  return edits.flatMap((each, index) => {
    if (typeof each !== "object" || each === null) return [];
    const openName = edit.open?.[0] === "edits" && edit.open[1] === index ? String(edit.open[2] ?? "-") : "";
    const ghost = ghostOfEdit(each as Record<string, unknown>, openName, text);
    return ghost ? [ghost] : [];
  });
}

type OneEdit = { old: string; new: string };

/** The old and new texts that an edit names itself. */
export function editsOf({ tool, args }: AgentEdit): OneEdit[] {
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  if (tool === "write_file") return [{ old: "", new: text(args["content"]) }];
  const edits = Array.isArray(args["edits"]) ? (args["edits"] as Record<string, unknown>[]) : [];
  return edits.map((each) => ({ old: text(each["old"]), new: text(each["new"]) }));
}

/** The file after a complete edit; null if the place of a part of it is not known. */
export function textAfter(edit: AgentEdit, text: string): string | null {
  if (edit.tool === "write_file") return editsOf(edit)[0]?.new ?? "";
  const edits = Array.isArray(edit.args["edits"]) ? (edit.args["edits"] as Record<string, unknown>[]) : [];
  if (edits.length > 1 && edits.some((each) => typeof each["old"] !== "string")) return null; // their lines are those of the original
  let whole = text;
  for (const each of edits) { // each is applied to the result of the one before
    const range = rangeOf(each, "", whole);
    if (!range) return null;
    let after = typeof each["new"] === "string" ? each["new"] : "";
    if (typeof each["insert_line"] === "number" && after && !after.endsWith("\n")) after += "\n";
    const old = each["old"];
    whole = each["replace_all"] === true && typeof old === "string" && old ? whole.split(old).join(after) : whole.slice(0, range[0]) + after + whole.slice(range[1]);
  }
  return whole;
}

function ghostsOfWrite({ args, open }: AgentEdit, text: string): Ghost[] {
  const content = args["content"];
  if (typeof content !== "string") return [];
  const isOpen = open !== null;
  // The rest of the old text may still be written: only the text before this point is known to be replaced.
  const compared = isOpen ? content.slice(0, content.lastIndexOf("\n") + 1) : content;
  const found = findReplacements(text, compared).filter((each) => !isOpen || each.to < text.length || each.insert);
  const ghosts = found.map(({ from, to, insert }): Ghost => ({ from, to: isOpen && to >= text.length ? from : to, text: insert, isOpen: false }));
  if (!isOpen) return ghosts;
  const last = ghosts.at(-1);
  const rest = content.slice(compared.length);
  const end = last && last.to === last.from && last.from + compared.length >= 0 ? last : null;
  if (end) return [...ghosts.slice(0, -1), { ...end, text: end.text + rest, isOpen }];
  const at = endOfCommon(text, compared);
  return [...ghosts, { from: at, to: at, text: text.startsWith(rest, at) ? "" : rest, isOpen }];
}

function endOfCommon(text: string, content: string): number {
  let at = 0;
  while (at < content.length && text[at] === content[at]) at += 1;
  return at;
}

function ghostOfEdit(edit: Record<string, unknown>, openName: string, text: string): Ghost | null {
  const isOpen = openName !== "";
  const after = typeof edit["new"] === "string" ? edit["new"] : "";
  const range = rangeOf(edit, openName, text);
  if (!range) return null;
  const [start, end] = range;
  const before = text.slice(start, end);
  let same = 0;
  while (same < before.length && same < after.length && before[same] === after[same]) same += 1;
  if (isOpen) return { from: start + same, to: start + same, text: after.slice(same), isOpen };
  let tail = 0;
  while (tail < before.length - same && tail < after.length - same && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  const ghost = { from: start + same, to: end - tail, text: after.slice(same, after.length - tail), isOpen };
  return ghost.from === ghost.to && !ghost.text ? null : ghost;
}

function rangeOf(edit: Record<string, unknown>, openName: string, text: string): [number, number] | null {
  const { old, start_line: first, end_line: last, insert_line: after } = edit;
  if (typeof old === "string" && old && openName !== "old") {
    const at = text.indexOf(old);
    return at < 0 ? null : [at, at + old.length];
  }
  if (typeof first === "number" && typeof last === "number") return [lineStart(text, first), Math.max(lineStart(text, first), lineStart(text, last + 1) - 1)];
  if (typeof after === "number") return [lineStart(text, after + 1), lineStart(text, after + 1)];
  return null;
}

/** The offset at which a line begins; the end of the text if there are fewer lines. */
function lineStart(text: string, line: number): number {
  let at = 0;
  for (let count = 1; count < line; count += 1) {
    const next = text.indexOf("\n", at);
    if (next < 0) return text.length;
    at = next + 1;
  }
  return at;
}

// Files that differ from the start, by whom, and in which row. A file that is as at the start has no mark.
import type { FoldState } from "./shared_fold_state";
import type { AnyEntry, Event, FileMark } from "./view_types";

export function foldFile(state: FoldState, entry: AnyEntry, event: Extract<Event, { type: "file.changed" }>): void {
  const { view } = state;
  const before = view.files[event.path];
  const kind = before?.kind === "created" && event.kind === "modified" ? "created" : event.kind;
  const mark: FileMark = { kind, by: event.by ?? "", runId: view.run, seq: entry.seq };
  if (!state.originals.has(event.path)) state.originals.set(event.path, event.before ?? null);
  if (state.originals.get(event.path) === (event.after ?? null)) Reflect.deleteProperty(view.files, event.path); // as at the start
  else view.files[event.path] = mark;
  if (event.moved_from) Reflect.deleteProperty(view.files, event.moved_from);
  view.lastChange = { path: event.path, seq: entry.seq, by: event.by ?? "" };
  const row = event.call_id ? state.row(state.calls.get(event.call_id) ?? "") : undefined;
  if (row?.kind === "tool") state.put({ ...row, files: [...row.files, { path: event.path, kind: event.kind, seq: entry.seq, movedFrom: event.moved_from ?? "" }] });
}

/** Note that files were taken back, or brought again, without a change of their own in the log. */
export function noteUndoneFiles(state: FoldState, entry: AnyEntry, { files, by }: { files: readonly string[]; by: string }): void {
  if (files.length) state.view.lastChange = { path: files[0] ?? "", seq: entry.seq, by };
}

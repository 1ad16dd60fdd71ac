// The agent's edits in the open files, and the editor that follows them. Following never takes the focus, and ends with
// the person's first key, click or scroll in the editor.
import { EditorView } from "@codemirror/view";
import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import type { Tool, View } from "../../../fold/view_types";
import { useSessionContext, useView } from "../session_context";
import { type AgentEdit, editOf, isAtWork, isEdit } from "./streamed_edit_parser";
import type { Document } from "./open_documents";

const DRAW_MS = 200; // the agent's caret moves at most five times a second
const LINGER_MS = 1500; // a preview stays until its text has come, at most so long
const MAX_ROWS = 80;

export type Following = { isOn: boolean; toggle: () => void };

/** Edits at work now, the oldest first, and those that ended just before. */
export class LiveEdits {
  /** The newest edit of the run if it began and ended between two updates: a slow page would not follow it otherwise. */
  missed: AgentEdit | null = null;
  private ended = new Map<string, { edit: AgentEdit; atMs: number }>();
  private known = new Map<string, { row: Tool; edit: AgentEdit }>();
  private newestId: string | null = null; // null before the first update

  update(view: View, now: number): AgentEdit[] {
    const found = new Map<string, { row: Tool; edit: AgentEdit }>();
    this.missed = this.findMissed(view);
    for (let at = view.rows.length - 1; at >= Math.max(0, view.rows.length - MAX_ROWS); at -= 1) {
      const row = view.rows[at];
      if (row?.kind !== "tool" || !isAtWork(row) || (row.runId !== view.run && view.run)) continue;
      const known = this.known.get(row.id);
      const edit = known?.row === row ? known.edit : editOf(row);
      if (edit) found.set(row.id, { row, edit });
    }
    for (const [id, { edit }] of this.known) if (!found.has(id)) this.ended.set(id, { edit, atMs: now });
    for (const [id, { atMs }] of this.ended) if (found.has(id) || now - atMs > LINGER_MS) this.ended.delete(id);
    this.known = found;
    return [...[...this.ended.values()].map((each) => each.edit), ...[...found.values()].reverse().map((each) => each.edit)];
  }

  private findMissed(view: View): AgentEdit | null {
    const newest = view.rows.slice(-MAX_ROWS).findLast((row): row is Tool => row.kind === "tool" && isEdit(row) && row.runId === view.run);
    const isFirst = this.newestId === null;
    if ((newest?.id ?? "") === this.newestId) return null;
    this.newestId = newest?.id ?? "";
    return newest && !isFirst && !isAtWork(newest) ? editOf(newest) : null;
  }
}

export function useAgentEdits(documents: Map<string, Document>, path: string, show: (path: string) => void, region: RefObject<HTMLElement | null>): Following {
  const { id, stream } = useSessionContext();
  const [isOn, setOn] = useFollowChoice(id, path);
  const [live] = useState(() => new LiveEdits());
  const drawnAt = useRef(0);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const shown = useRef([path]); // what this hook has shown, and will when React has rendered it; the person chose any other file
  const view = useView();

  const draw = useCallback(() => {
    const now = performance.now();
    drawnAt.current = now;
    const edits = live.update(stream.view, now);
    for (const [file, each] of documents) each.showAgent(edits.filter((edit) => edit.path === file), stream.view.persona);
    const newest = edits.at(-1) ?? live.missed;
    if (edits.length) timer.current ??= setTimeout(() => { timer.current = undefined; draw(); }, DRAW_MS);
    if (!isOn || !newest) return;
    if (newest.path !== path) {
      if (shown.current.at(-1) !== newest.path) shown.current.push(newest.path);
      return show(newest.path);
    }
    const doc = documents.get(path);
    const ghost = doc?.ghosts.findLast((each) => each.isOpen) ?? doc?.ghosts.at(-1);
    if (doc?.view && ghost) doc.view.dispatch({ effects: EditorView.scrollIntoView(Math.min(ghost.from, doc.view.state.doc.length), { y: "nearest", yMargin: 60 }) });
  }, [documents, isOn, live, path, show, stream]);

  useEffect(() => {
    if (performance.now() - drawnAt.current >= DRAW_MS) return draw();
    timer.current ??= setTimeout(() => { timer.current = undefined; draw(); }, DRAW_MS);
  }, [draw, view.seq, view.rows, stream.version]);
  useEffect(() => () => { clearTimeout(timer.current); timer.current = undefined; }, [draw]);

  useEffect(() => {
    const at = shown.current.lastIndexOf(path);
    if (at < 0) setOn(false);
    shown.current = at < 0 ? [path] : shown.current.slice(at);
  }, [path, setOn]);
  useEffect(() => {
    const element = region.current;
    if (!element || !isOn) return;
    const end = () => setOn(false);
    const kinds = ["wheel", "pointerdown", "keydown", "touchmove"];
    for (const kind of kinds) element.addEventListener(kind, end, { passive: true });
    return () => { for (const kind of kinds) element.removeEventListener(kind, end); };
  }, [region, isOn, setOn]);

  return { isOn, toggle: () => setOn(!isOn) };
}

/** On until the person opens a file; a reload keeps it. */
function useFollowChoice(session: string, path: string): [boolean, (on: boolean) => void] {
  const key = `hutch.follow.${session}`;
  const [isOn, setOn] = useState(() => (sessionStorage.getItem(key) ?? (path ? "off" : "on")) === "on");
  const choose = useCallback((on: boolean) => {
    sessionStorage.setItem(key, on ? "on" : "off");
    setOn(on);
  }, [key]);
  return [isOn, choose];
}

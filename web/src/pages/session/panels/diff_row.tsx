// One row of the diff panel. Heights are fixed, so that nothing is measured but comments.
import { type ReactNode, useEffect, useRef } from "react";
import { Added, Button, IconButton } from "../../../shared/form_controls";
import type { DiffLine } from "../../../shared/patch_parser";
import { LineText } from "../../../shared/diff_lines";
import { Icon } from "../../../shared/icons";
import { SafeText, showHidden } from "../../../shared/safe_text";
import { strings } from "../../../strings";
import { type ChangeRow, type Comment, type Draft, type Side, hunkKey, numberOf, sideOf } from "./diff_rows";

export const HEIGHTS: Record<ChangeRow["kind"], number> = { file: 28, note: 28, hunk: 24, line: 24, pair: 24, comment: 36, form: 96 };
const TINTS = { "+": "bg-add", "-": "bg-del", " ": "" };

export type Actions = {
  isOpen: (path: string) => boolean;
  toggle: (path: string) => void;
  isKept: (key: string) => boolean;
  setKept: (key: string, kept: boolean) => void;
  openFile: (path: string, line?: number) => void;
  draft: Draft | null;
  setDraft: (draft: Draft | null) => void;
  addComment: (text: string) => void;
  removeComment: (comment: Comment) => void;
  canWrite: boolean;
};

export function ChangeRowView({ row, actions }: { row: ChangeRow; actions: Actions }): ReactNode {
  switch (row.kind) {
    case "file": return <FileHeader row={row} actions={actions} />;
    case "note": return <p className="meta px-3 py-1.5">{row.file.note ? strings.diff.binary : row.file.added + row.file.deleted > 0 ? strings.session.loading : row.file.isNew || row.file.isGone || !row.file.oldPath ? strings.diff.notShown : strings.diff.noLines}</p>;
    case "hunk": return <HunkHeader row={row} actions={actions} />;
    case "line": return <div className={`flex h-6 ${TINTS[row.line.sign]}`}><Cells line={row.line} side={sideOf(row.line)} row={row} actions={actions} /></div>;
    case "pair": return (
      <div className="grid h-6 grid-cols-2">
        <div className={`flex min-w-0 overflow-hidden border-r ${row.left ? TINTS[row.left.sign] : "bg-code"}`}>{row.left && <Cells line={row.left} side="old" row={row} actions={actions} />}</div>
        <div className={`flex min-w-0 overflow-hidden ${row.right ? TINTS[row.right.sign] : "bg-code"}`}>{row.right && <Cells line={row.right} side="new" row={row} actions={actions} />}</div>
      </div>
    );
    case "comment": return (
      <div className="sticky left-0 flex w-[min(100%,var(--panel-width))] gap-2 border-y bg-info-tint px-3 py-1.5 font-sans text-13">
        <Icon name="diff" size={14} className="mt-0.5 text-info" />
        <span className="text-12 text-info">{row.comment.from === row.comment.to ? row.comment.from : `${row.comment.from}–${row.comment.to}`}</span>
        <span className="min-w-0 grow whitespace-pre-wrap"><SafeText text={row.comment.text} /></span>
        <Button kind="quiet" small onClick={() => actions.removeComment(row.comment)}>{strings.changes.discard}</Button>
      </div>
    );
    case "form": return <CommentForm draft={row.draft} actions={actions} />;
  }
}

export function FileHeader({ row, actions }: { row: ChangeRow; actions: Actions }) {
  const { file } = row;
  const open = actions.isOpen(file.path);
  return (
    <div className="sticky left-0 flex h-7 w-[min(100%,var(--panel-width))] items-center gap-2 border-y bg-code px-3 font-sans">
      {actions.canWrite && <Keep label={strings.changes.keepFile(file.path)} isKept={actions.isKept(file.path)} set={(kept) => actions.setKept(file.path, kept)} />}
      <button type="button" aria-expanded={open} onClick={() => actions.toggle(file.path)} className="inset-focus flex min-w-0 grow items-center gap-2 text-left">
        <Icon name="chevron" size={12} className={`text-t3 ${open ? "rotate-90" : ""}`} />
        <code className={`min-w-0 truncate ${actions.isKept(file.path) ? "" : "line-through"}`}><SafeText oneLine text={file.oldPath && file.oldPath !== file.path && !file.isNew ? `${file.oldPath} → ${file.path}` : file.path} /></code>
        <Added added={file.added} deleted={file.deleted} />
        {!open && file.added + file.deleted > 0 && <span className="meta truncate">{strings.changes.folded(file.added + file.deleted)}</span>}
      </button>
      <Button kind="quiet" small onClick={() => actions.openFile(file.path)}>{strings.session.openFile}</Button>
    </div>
  );
}

function Keep({ label, isKept, set }: { label: string; isKept: boolean; set: (kept: boolean) => void }) {
  return <input type="checkbox" checked={isKept} aria-label={label} title={showHidden(label)} onChange={(event) => set(event.target.checked)} className="size-4 shrink-0 accent-[var(--accent)]" />;
}

function HunkHeader({ row, actions }: { row: Extract<ChangeRow, { kind: "hunk" }>; actions: Actions }) {
  const key = hunkKey(row.file.path, row.index);
  const first = row.hunk.lines[0];
  return (
    <div className="sticky left-0 flex h-6 w-[min(100%,var(--panel-width))] items-center gap-2 bg-code px-3 text-t3">
      {actions.canWrite && row.file.hunks.length > 1 && <Keep label={strings.changes.keepHunk(first?.new || first?.old || 0)} isKept={actions.isKept(key) && actions.isKept(row.file.path)} set={(kept) => actions.setKept(key, kept)} />}
      <span className="min-w-0 truncate">⋯ <SafeText text={row.hunk.header} /></span>
    </div>
  );
}

type CellProps = { line: DiffLine; side: Side; row: ChangeRow; actions: Actions };

function Cells({ line, side, row, actions }: CellProps) {
  const number = numberOf(line, side);
  const { draft } = actions;
  const path = row.file.path;
  const isChosen = draft?.path === path && draft.side === side && number >= draft.from && number <= draft.to;
  const choose = (extend: boolean) => {
    const from = extend && draft?.path === path && draft.side === side ? Math.min(draft.from, number) : number;
    const to = extend && draft?.path === path && draft.side === side ? Math.max(draft.to, number) : number;
    actions.setDraft({ path, side, from, to });
  };
  return (
    <>
      <span className={`w-12 shrink-0 pr-2 text-right text-t2 select-none ${isChosen ? "bg-selected" : ""}`}>
        {actions.canWrite ? <button type="button" className="inset-focus w-full text-right hover:underline" aria-label={strings.diff.comment(number)} title={strings.changes.commentHint} onClick={(event) => choose(event.shiftKey)}>{number}</button> : number}
      </span>
      <span className="w-4 shrink-0 text-center text-t2 select-none">
        <span aria-hidden="true">{line.sign === "-" ? "−" : line.sign}</span>
        {line.sign !== " " && <span className="sr-only">{line.sign === "+" ? strings.diff.added : strings.diff.deleted}</span>}
      </span>
      <span className={`min-w-0 overflow-hidden text-ellipsis whitespace-pre text-t1 ${isChosen ? "bg-selected" : ""}`}><LineText line={line} /></span>
    </>
  );
}

function CommentForm({ draft, actions }: { draft: Draft; actions: Actions }) {
  const area = useRef<HTMLTextAreaElement>(null);
  const range = draft.from === draft.to ? strings.diff.comment(draft.from) : strings.changes.commentOn(draft.from, draft.to);
  useEffect(() => {
    area.current?.focus({ preventScroll: true });
    const measured = requestAnimationFrame(() => area.current?.form?.scrollIntoView({ block: "nearest" })); // its place is known then
    return () => cancelAnimationFrame(measured);
  }, [draft.from, draft.to]);
  const submit = () => {
    const text = area.current?.value.trim() ?? "";
    if (text) actions.addComment(text);
    else actions.setDraft(null);
  };
  return (
    <form className="sticky left-0 flex w-[min(100%,var(--panel-width))] items-end gap-2 border-y bg-panel p-2 font-sans" onSubmit={(event) => { event.preventDefault(); submit(); }}>
      <div className="grow">
        <p className="meta mb-1">{range} · {strings.changes.extend}</p>
        <textarea ref={area} rows={2} aria-label={range} placeholder={range} className="w-full resize-none rounded-row border border-edge bg-panel p-2 text-13" onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit();
          else if (event.key === "Escape") actions.setDraft(null);
          else if (event.shiftKey && event.altKey && event.key === "ArrowDown") actions.setDraft({ ...draft, to: draft.to + 1 });
          else return;
          event.preventDefault();
        }} />
      </div>
      <Button type="submit" kind="primary">{strings.changes.add}</Button>
      <IconButton icon="cross" label={strings.session.cancel} onClick={() => actions.setDraft(null)} />
    </form>
  );
}

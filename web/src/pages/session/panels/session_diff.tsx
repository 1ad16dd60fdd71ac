// The diff of the session, since its start, its last run or any snapshot. Nothing is redrawn under the reader's eyes.
// Unchecked files and hunks can be reverted; comments on lines go to the agent together.
import { useQueries, useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState } from "react";
import { type Schemas, get, inAddress, post, send as request } from "../../../api/http_client";
import { Added, Button, IconButton } from "../../../shared/form_controls";
import { type FileDiff, parsePatch } from "../../../shared/patch_parser";
import { MAX_LINE_CHARS } from "../../../shared/diff_lines";
import { ProblemLine } from "../../../shared/error_message";
import { strings } from "../../../strings";
import { useSessionContext, useView } from "../session_context";
import { ProposeButton } from "../propose_change_dialog";
import { type Actions, ChangeRowView, FileHeader, HEIGHTS } from "./diff_row";
import { type ChangeRow, type Comment, type Draft, changeRows, filesOf, hunkKey, messageOf, quoted, reversePatch } from "./diff_rows";

const MAX_OPEN_LINES = 1500;
const SPLIT_PX = 1000;
const MAX_LATER = 20;
const LOCK = /(^|\/)(package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|uv\.lock|poetry\.lock|Pipfile\.lock|Cargo\.lock|composer\.lock|Gemfile\.lock|go\.sum)$/;

export function Changes() {
  const { id, stream, canWrite, canChange, openFile, me } = useSessionContext();
  const view = useView();
  const [since, setSince] = useState("");
  const stamp = view.lastChange?.seq ?? 0;
  const [shownStamp, setShownStamp] = useState(stream.isLoaded ? stamp : -1);
  if (shownStamp < 0 && stream.isLoaded) setShownStamp(stamp);
  const diff = useQuery({
    queryKey: ["diff", id, since, shownStamp],
    enabled: shownStamp >= 0,
    queryFn: () => get<Schemas["Difference"]>(`/sessions/${id}/diff${since ? `?old=${since}` : ""}`),
    placeholderData: (before) => before,
  });
  const read = useMemo(() => (diff.data ? filesOf(parsePatch(diff.data.patch), diff.data.files, diff.data.cut) : NONE), [diff.data]);
  const [folds, setFolds] = useState<ReadonlyMap<string, boolean>>(new Map());
  const isOpen = (path: string) => folds.get(path) ?? opensItself(read.files.find((file) => file.path === path));
  const files = useLater(read, isOpen, (path) => `/sessions/${id}/diff?path=${encodeURIComponent(path)}${since ? `&old=${since}` : ""}`, shownStamp);
  const isStale = shownStamp >= 0 && stamp !== shownStamp;
  if (isStale && (files.length === 0 || view.lastChange?.by === me.id)) setShownStamp(stamp); // nothing is read yet, or the reader did it
  const [comments, setComments] = useComments(id);
  const [error, setError] = useState<unknown>(null);
  const [draft, setDraft] = useState<Draft | null>(null);
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const scroller = useRef<HTMLDivElement>(null);
  const [isSplit, setSplit] = useSplit(scroller);

  const sendComments = () => {
    const text = messageOf(comments);
    stream.give({ type: view.run ? "message" : "prompt", text }).then(() => setComments([]), setError);
  };
  const byPath = new Map(files.map((file) => [file.path, file]));
  const takeBack = async () => {
    setError(null);
    try {
      for (const file of files) await takeBackFrom(id, file, left);
      setLeft(new Set());
    } catch (failed) {
      setError(failed);
    }
  };
  const actions: Actions = {
    isOpen, openFile, draft, setDraft, canWrite: canChange,
    toggle: (path) => setFolds(new Map(folds).set(path, !isOpen(path))),
    isKept: (key) => !left.has(key),
    setKept: (key, kept) => setLeft(kept ? new Set([...left].filter((each) => each !== key)) : new Set([...left, key])),
    addComment: (text) => {
      const file = draft && byPath.get(draft.path);
      if (draft && file) setComments([...comments, { ...draft, quoted: quoted(file, draft), text }]);
      setDraft(null);
    },
    removeComment: (comment) => setComments(comments.filter((each) => each !== comment)),
  };
  const rows = changeRows(files, { isOpen, isSplit, comments, draft });
  const run = view.rows.findLast((row) => row.kind === "prompt" && row.state !== "queued");
  const beforeRun = run && view.snapshots.findLast((each) => each.seq < run.seq);
  return (
    <div className="flex h-full flex-col">
      <div className="flex min-h-8 shrink-0 flex-wrap items-center gap-x-2 gap-y-1 border-b px-3 py-0.5 text-12 text-t2">
        <label className="flex items-center gap-2">
          {strings.panel.since}
          <select value={since} onChange={(event) => setSince(event.target.value)} className="h-6 max-w-44 rounded-row border border-edge bg-panel px-1 text-12 text-t1">
            <option value="">{strings.panel.start}</option>
            {beforeRun && <option value={beforeRun.number}>{strings.changes.lastRun}</option>}
            {view.snapshots.slice(1).toReversed().filter((each) => each !== beforeRun).map((each) => <option key={each.number} value={each.number}>{strings.panel.snapshot(each.number, each.reason)}</option>)}
          </select>
        </label>
        {diff.data && files.length > 0 && <Added added={diff.data.files.reduce((sum, file) => sum + (file.added ?? 0), 0)} deleted={diff.data.files.reduce((sum, file) => sum + (file.deleted ?? 0), 0)} />}
        {files.length > 0 && <IconButton icon={isSplit ? "unified" : "split"} size={14} label={isSplit ? strings.changes.unified : strings.changes.split} onClick={() => setSplit(!isSplit)} />}
        <span className="grow" />
        {isStale && <Button kind="primary" small icon="retry" onClick={() => setShownStamp(stamp)}>{strings.panel.staleChanges}</Button>}
        {left.size > 0 && <Button kind="danger" small icon="undo" onClick={() => void takeBack()}>{strings.changes.takeBack(left.size)}</Button>}
        {comments.length > 0 && canChange && <Button kind="primary" small icon="send" onClick={sendComments}>{strings.changes.send(comments.length)}</Button>}
        {canWrite && files.length > 0 && <ProposeButton />}
      </div>
      {(diff.isError || error !== null) && <div className="p-2"><ProblemLine error={error ?? diff.error} retry={() => { setError(null); void diff.refetch(); }} /></div>}
      {diff.isSuccess && files.length === 0 ? <p className="p-4 text-center text-t2">{strings.panel.noChanges}</p> : <Rows rows={rows} actions={actions} isSplit={isSplit} scroller={scroller} />}
    </div>
  );
}

function Rows({ rows, actions, isSplit, scroller }: { rows: ChangeRow[]; actions: Actions; isSplit: boolean; scroller: React.RefObject<HTMLDivElement | null> }) {
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    getItemKey: (index) => rows[index]?.key ?? index,
    estimateSize: (index) => HEIGHTS[rows[index]?.kind ?? "line"],
    overscan: 20,
  });
  const chars = useMemo(() => rows.reduce((most, row) => Math.max(most, row.kind === "line" ? row.line.text.length : 0), 0), [rows]);
  const items = virtual.getVirtualItems();
  const top = items.find((item) => item.end > (virtual.scrollOffset ?? 0));
  const pinned = top && rows[top.index]?.kind !== "file" ? rows[top.index] : undefined;
  const width = virtual.scrollRect?.width ?? 0;
  return (
    <div ref={scroller} tabIndex={0} role="group" aria-label={strings.panel.changes} className="inset-focus min-h-0 grow overflow-auto font-mono text-12 leading-6" style={{ "--panel-width": `${width}px` } as React.CSSProperties}>
      {pinned && <div className="sticky top-0 left-0 z-10 h-0"><FileHeader row={pinned} actions={actions} /></div>}
      <div className="relative min-w-full" style={{ height: virtual.getTotalSize(), ...(isSplit ? {} : { width: `calc(${Math.min(chars, MAX_LINE_CHARS) + 24}ch + 76px)` }) }}>
        {items.map((item) => {
          const row = rows[item.index];
          const isMeasured = row?.kind === "comment" || row?.kind === "form";
          return row && (
            <div key={item.key} data-index={item.index} {...(isMeasured ? { ref: virtual.measureElement } : {})} className="absolute inset-x-0 top-0" style={{ transform: `translateY(${item.start}px)` }}>
              <ChangeRowView row={row} actions={actions} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

const NONE = { files: [] as FileDiff[], later: new Set<string>() };

/** Files that the patch lacked, read one by one when they are open. */
function useLater(read: { files: FileDiff[]; later: Set<string> }, isOpen: (path: string) => boolean, address: (path: string) => string, stamp: number): FileDiff[] {
  const openFiles = read.files.filter((file) => read.later.has(file.path) && isOpen(file.path)).slice(0, MAX_LATER);
  const answers = useQueries({ queries: openFiles.map((file) => ({ queryKey: ["file-diff", address(file.path), stamp], queryFn: async () => parsePatch((await get<Schemas["Difference"]>(address(file.path))).patch)[0] ?? null })) });
  const found = new Map(openFiles.map((file, index) => [file.path, answers[index]?.data]));
  return read.files.map((file) => found.get(file.path) ?? file);
}

const opensItself = (file: FileDiff | undefined) => file !== undefined && file.added + file.deleted <= MAX_OPEN_LINES && !LOCK.test(file.path);

async function takeBackFrom(id: string, file: FileDiff, left: ReadonlySet<string>): Promise<void> {
  const isWhole = left.has(file.path);
  if (isWhole && file.isNew) {
    await request(`/sessions/${id}/files/${inAddress(file.path)}`, { method: "DELETE" });
    return;
  }
  const hunks = file.hunks.map((_, index) => index).filter((index) => isWhole || left.has(hunkKey(file.path, index)));
  if (hunks.length) await post(`/sessions/${id}/patch`, { patch: reversePatch(file, hunks) });
}

/** Comments wait here until they are sent, also over a reload. */
function useComments(id: string): [Comment[], (comments: Comment[]) => void] {
  const key = `hutch.comments.${id}`;
  const [comments, set] = useState<Comment[]>(() => {
    try {
      return JSON.parse(localStorage.getItem(key) ?? "[]") as Comment[];
    } catch {
      return [];
    }
  });
  return [comments, (next) => {
    if (next.length) localStorage.setItem(key, JSON.stringify(next));
    else localStorage.removeItem(key);
    set(next);
  }];
}

/** Side by side where there is room, until the user chooses. */
function useSplit(scroller: React.RefObject<HTMLDivElement | null>): [boolean, (split: boolean) => void] {
  const [chosen, choose] = useState(() => localStorage.getItem("hutch.diff"));
  const isWide = (scroller.current?.clientWidth ?? 0) >= SPLIT_PX;
  return [chosen ? chosen === "split" : isWide, (split) => {
    localStorage.setItem("hutch.diff", split ? "split" : "unified");
    choose(split ? "split" : "unified");
  }];
}

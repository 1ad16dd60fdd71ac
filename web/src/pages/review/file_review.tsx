// One file of a change: its lines, the comments on them, and the mark that it was viewed.
import { useState } from "react";
import { type Change, type Schemas, post } from "../../api/http_client";
import { ago } from "../../display_format";
import { Added, Badge, Button } from "../../shared/form_controls";
import type { FileDiff } from "../../shared/patch_parser";
import { Markdown } from "../../shared/markdown";
import { useNow } from "../../shared/current_time";
import { ProblemLine } from "../../shared/error_message";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/review";
import { draftOf, draftPlaces, keepDraft } from "./local_review_state";
import { type Place, ReviewLines, idOf } from "./review_lines";

const MAX_OPEN_LINES = 1500;
const LOCK = /(^|\/)(package-lock\.json|yarn\.lock|pnpm-lock\.yaml|uv\.lock|poetry\.lock|Cargo\.lock|go\.sum)$/;
type Props = { change: Change; file: FileDiff; comments: Schemas["Comment"][]; viewed: boolean; split: boolean; toggle: () => void; renew: () => void; nameOf: (by: string) => string };

export function FileReview({ change, file, comments, viewed, split, toggle, renew, nameOf }: Props) {
  const [places, setPlaces] = useState<Place[]>(() => draftPlaces(change.id, file.path));
  const [error, setError] = useState<unknown>(null);
  const changed = file.added + file.deleted;
  const [unfolded, setUnfolded] = useState(!(LOCK.test(file.path) || changed > MAX_OPEN_LINES));
  const close = (place: Place) => {
    keepDraft(change.id, file.path, place, "");
    setPlaces((before) => before.filter((each) => idOf(each) !== idOf(place)));
    document.getElementById(file.path)?.querySelector<HTMLElement>(`[data-line="${idOf(place)}"]`)?.focus();
  };
  const below = (place: Place) => {
    const onLine = comments.filter((each) => each.line === place.line && (each.side === "old") === (place.side === "old"));
    const writing = places.some((each) => idOf(each) === idOf(place));
    if (onLine.length === 0 && !writing) return null;
    return (
      <div className="border-y bg-frame p-2 pl-11"><div className="max-w-3xl space-y-2">
        {onLine.map((each) => <CommentCard key={each.id} comment={each} nameOf={nameOf} resolve={() => void post(`/changes/${change.id}/comments/${each.id}/resolve`).then(renew, setError)} />)}
        {writing && <CommentForm change={change} path={file.path} place={place} close={() => close(place)} done={() => { close(place); renew(); }} />}
      </div></div>
    );
  };
  const shownLines = new Set(file.hunks.flatMap((hunk) => hunk.lines.map((line) => (line.sign === "-" ? `L${line.old}` : `R${line.new}`))));
  const elsewhere = comments.filter((each) => !shownLines.has(idOf({ side: each.side === "old" ? "old" : "new", line: each.line })));
  return (
    <article id={file.path} tabIndex={-1} aria-label={file.path} data-file={file.path} className="mb-3 scroll-mt-3 overflow-hidden rounded-card border bg-panel">
      <header className="flex h-8 items-center gap-2 border-b bg-code px-3">
        <code className="min-w-0 truncate"><SafeText oneLine text={file.path} /></code>
        {file.oldPath && file.oldPath !== file.path && <span className="meta min-w-0 truncate"><SafeText text={text.renamed(file.oldPath)} /></span>}
        <span className="grow" />
        {comments.some((each) => !each.resolved_ms) && <Badge tone="info">{text.waits(comments.filter((each) => !each.resolved_ms).length)}</Badge>}
        <Added added={file.added} deleted={file.deleted} />
        <label className="flex items-center gap-1.5 text-12 text-t2 pointer-coarse:h-11"><input type="checkbox" checked={viewed} onChange={toggle} className="accent-accent" />{text.viewed}</label>
      </header>
      {!viewed && (unfolded ? <ReviewLines file={file} split={split} onLine={(place) => setPlaces((before) => (before.some((each) => idOf(each) === idOf(place)) ? before : [...before, place]))} below={below} />
        : <p className="flex items-center gap-3 p-3 text-t2">{text.folded(changed)}<Button small onClick={() => setUnfolded(true)}>{text.show}</Button></p>)}
      {!viewed && elsewhere.map((each) => <div key={each.id} className="border-t p-2"><CommentCard comment={each} nameOf={nameOf} resolve={() => void post(`/changes/${change.id}/comments/${each.id}/resolve`).then(renew, setError)} /></div>)}
      {error !== null && <div className="p-2"><ProblemLine error={error} /></div>}
    </article>
  );
}

function CommentCard({ comment, nameOf, resolve }: { comment: Schemas["Comment"]; nameOf: (by: string) => string; resolve: () => void }) {
  const now = useNow();
  return (
    <div className={`rounded-card border bg-panel px-3 py-2 ${comment.resolved_ms ? "opacity-70" : ""}`}>
      <header className="flex items-center gap-2 text-12 text-t3">
        <b className="text-t1"><SafeText text={nameOf(comment.author)} /></b>
        <time>{ago(comment.created_ms, now)}</time>
        {comment.severity && <Badge tone={comment.severity === "blocker" ? "bad" : comment.severity === "should" ? "warn" : "none"}>{comment.severity}</Badge>}
        <span className="grow" />
        {comment.resolved_ms ? <Badge tone="ok">{text.resolved}</Badge> : <Button small kind="quiet" onClick={resolve}>{text.resolve}</Button>}
      </header>
      <Markdown text={comment.body} />
    </div>
  );
}

function CommentForm({ change, path, place, close, done }: { change: Change; path: string; place: Place; close: () => void; done: () => void }) {
  const [error, setError] = useState<unknown>(null);
  return (
    <form className="rounded-card border bg-panel p-2" onSubmit={(event) => {
      event.preventDefault();
      const body = String(new FormData(event.currentTarget).get("body") ?? "").trim();
      if (body) post(`/changes/${change.id}/comments`, { path, line: place.line, side: place.side, body, commit: change.commit }).then(done, setError);
    }}>
      <textarea name="body" autoFocus rows={3} defaultValue={draftOf(change.id, path, place)} aria-label={text.commentOn(place.line)} placeholder={text.commentOn(place.line)} className="w-full resize-y rounded-row border border-edge bg-panel p-2 text-13"
        onInput={(event) => keepDraft(change.id, path, place, event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit();
          if (event.key === "Escape") close();
        }} />
      {error !== null && <div className="mt-1"><ProblemLine error={error} /></div>}
      <div className="mt-1 flex justify-end gap-2"><Button small kind="quiet" onClick={close}>{text.cancel}</Button><Button small type="submit" kind="primary" keys="Ctrl ↵">{text.comment}</Button></div>
    </form>
  );
}

// A change under review: tests before and after, its diff with comments on lines, viewed marks, and the verdict.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import { type Change, Problem, type Schemas, get, giveInput, post, send } from "../../api/http_client";
import { useUsers } from "../../api/queries";
import { Added, Badge, Button } from "../../shared/form_controls";
import { Dialog } from "../../shared/dialog";
import { type FileDiff, parsePatch } from "../../shared/patch_parser";
import { Icon } from "../../shared/icons";
import { Markdown } from "../../shared/markdown";
import { ProblemLine } from "../../shared/error_message";
import { usePageCommands } from "../../shared/page_commands";
import { SafeText, showHidden } from "../../shared/safe_text";
import { keysOf } from "../../shared/shortcuts";
import { setPageTitle } from "../../shared/page_title";
import { strings } from "../../strings";
import { text } from "../../strings/review";
import { NotFound } from "../not_found";
import { makeNameOf } from "../session/session_context";
import { useIsPhone, useIsWide } from "../session/window_width_classes";
import { FileReview } from "./file_review";
import { stampOf, useViewed } from "./local_review_state";
import { useReviewKeys } from "./review_keys";

type Verdict = "approve" | "request-changes" | "merge" | "close";
const LAYOUT = "hutch.review.layout";

export function ReviewPage({ id, user }: { id: string; user: Schemas["User"] }) {
  const queries = useQueryClient();
  const [, go] = useLocation();
  const change = useQuery({ queryKey: ["change", id], queryFn: () => get<Change>(`/changes/${id}`), refetchInterval: 10_000 });
  const diff = useQuery({ queryKey: ["change-diff", id, change.data?.commit], enabled: change.isSuccess, queryFn: async () => (await send(`/changes/${id}/diff`)).text() });
  const comments = useQuery({ queryKey: ["change-comments", id], queryFn: async () => (await get<Schemas["CommentPage"]>(`/changes/${id}/comments?limit=200`)).items, refetchInterval: 10_000 });
  const reviews = useQuery({ queryKey: ["change-reviews", id], queryFn: async () => (await get<Schemas["ReviewPage"]>(`/changes/${id}/reviews`)).items, refetchInterval: 10_000 });
  const objections = useQuery({ queryKey: ["change-objections", id, change.data?.commit], enabled: change.data?.state === "open", queryFn: async () => (await get<Schemas["Objections"]>(`/changes/${id}/objections`)).items, refetchInterval: 10_000 });
  const against = objections.data ?? [];
  const users = useUsers(user.role === "owner");
  const nameOf = makeNameOf(user, users.data, undefined);
  const files = useMemo(() => (diff.data ? parsePatch(diff.data) : []), [diff.data]);
  const stamps = useMemo(() => new Map(files.map((file) => [file.path, stampOf(file)])), [files]);
  const [viewed, setViewed] = useViewed(id, stamps);
  const [verdict, setVerdict] = useState<Verdict | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [announcement, setAnnouncement] = useState("");
  const [layout, setLayout] = useState(() => localStorage.getItem(LAYOUT));
  const [isWide, isPhone] = [useIsWide(), useIsPhone()];
  const split = !isPhone && (layout ? layout === "split" : isWide);
  const turn = () => {
    const next = split ? "unified" : "split";
    localStorage.setItem(LAYOUT, next);
    setLayout(next);
  };
  const renew = () => void queries.invalidateQueries({ predicate: (query) => String(query.queryKey[0]).startsWith("change") });
  useReviewKeys((path) => setViewed(path), turn);
  useEffect(() => {
    if (change.data) setPageTitle(`${change.data.state} · ${change.data.title}`);
  }, [change.data]);
  useEffect(() => { // #src/a.py:R12
    const found = /^#(.+?)(?::([LR]\d+))?$/.exec(decodeURIComponent(location.hash));
    const file = found?.[1] && files.length ? document.getElementById(found[1]) : null;
    const line = found?.[2] ? file?.querySelector<HTMLElement>(`[data-line="${found[2]}"]`) : null;
    (line ?? file)?.scrollIntoView({ block: line ? "center" : "start" });
    (line ?? file)?.focus({ preventScroll: true });
  }, [files]);
  const open = (comments.data ?? []).filter((each) => !each.resolved_ms);
  const sessionId = change.data?.session_id ?? "";
  const toAgent = () => giveInput(sessionId, { type: "prompt", text: open.map((each) => `${each.path}:${each.line} (${each.side}): ${each.body}`).join("\n\n") }).then(() => setAnnouncement(text.sentToAgent), setError);
  const byAgent = () => post(`/changes/${id}/review`, {}).then(() => { setAnnouncement(text.underReview); renew(); }, setError);
  usePageCommands(!change.data ? [] : [
    ...(change.data.state !== "open" ? [] : [
      { label: text.merge, detail: against.length ? text.notMergeable(against) : change.data.title, icon: "check" as const, run: () => setVerdict("merge") },
      { label: text.approve, icon: "check" as const, run: () => setVerdict("approve") },
      { label: text.request, icon: "edit" as const, run: () => setVerdict("request-changes") },
      { label: text.closeCommand, icon: "cross" as const, run: () => setVerdict("close") },
      { label: text.byAgent, icon: "spark" as const, run: () => void byAgent() },
      ...(open.length ? [{ label: text.toAgent(open.length), icon: "send" as const, run: () => void toAgent() }] : []),
    ]),
    { label: split ? text.toUnified : text.toSplit, icon: "diff", keys: keysOf("layout"), run: turn },
    { label: text.toSession, icon: "list", run: () => go(`/s/${sessionId}`) },
    { label: strings.palette.play, icon: "play", run: () => go(`/s/${sessionId}/play`) },
  ]);
  if (change.error instanceof Problem && change.error.status === 404) return <NotFound />;
  if (change.isError) return <div className="p-4"><ProblemLine error={change.error} retry={() => void change.refetch()} /></div>;
  if (!change.data) return null;
  const { title, base, branch, state, body, session_id, url } = change.data;
  return (
    <main className="flex h-full flex-col max-md:overflow-auto">
      <header className="shrink-0 border-b md:max-h-[45%] md:overflow-auto bg-panel px-4 py-3">
        <div className="flex items-start gap-x-4 gap-y-2 max-xl:flex-col">
          <div className="min-w-0 grow">
            <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
              <h1 className="min-w-0 text-16 font-semibold"><SafeText text={title} /></h1>
              <Badge tone={state === "merged" ? "agent" : state === "open" ? "ok" : "none"}>{state}</Badge>
              <TestsOf change={change.data} />
            </div>
            <p className="meta mt-1"><code><SafeText text={text.into(base, branch)} /></code> · <Link href={`/s/${session_id}`} className="text-link underline">{text.session}</Link> · <Link href={`/s/${session_id}/play`} className="text-link underline">{text.play}</Link>{/^https?:/.test(url) && <> · <a href={url} target="_blank" rel="noopener noreferrer" className="text-link underline">{text.forge}</a></>}</p>
          </div>
          {state === "open" && (
            <div className="flex shrink-0 flex-wrap items-center justify-end gap-2 max-xl:justify-start">
              <Button kind="quiet" onClick={() => setVerdict("close")}>{text.close}</Button>
              {open.length > 0 && <Button icon="send" onClick={() => void toAgent()}>{text.toAgent(open.length)}</Button>}
              <Button kind="quiet" icon="spark" onClick={() => void byAgent()}>{text.byAgent}</Button>
              <Button onClick={() => setVerdict("request-changes")}>{text.request}</Button>
              <Button onClick={() => setVerdict("approve")}>{text.approve}</Button>
              <Button kind="primary" disabled={against.length > 0} {...(against.length ? { "aria-describedby": "objections" } : {})} onClick={() => setVerdict("merge")}>{text.merge}</Button>
            </div>
          )}
        </div>
        {state === "open" && against.length > 0 && (
          <p id="objections" className="mt-2 flex flex-wrap items-center gap-x-3 rounded-row bg-warn-tint px-2 py-1 text-warn">
            <span className="min-w-0 break-words"><SafeText text={text.notMergeable(against)} /></span>
            <Button kind="quiet" small onClick={() => setVerdict("merge")}>{text.mergeAnyway}</Button>
          </p>
        )}
        {body && <div className="mt-2 max-w-[90ch]"><Markdown text={body} /></div>}
        {(reviews.data ?? []).map((each) => <div key={each.id} className="mt-2 text-t2"><p><b className="text-t1"><SafeText text={nameOf(each.author)} /></b> {text.verdict[each.verdict] ?? each.verdict}{each.title && <>: <SafeText text={each.title} /></>}</p>{each.body && <Markdown text={each.body} />}</div>)}
        {announcement && <p role="status" className="mt-2 text-ok">{announcement}</p>}
        {error !== null && <div className="mt-2"><ProblemLine error={error} /></div>}
      </header>
      <div className="flex min-h-0 max-md:block md:grow">
        <nav aria-label={text.files} className="w-60 shrink-0 overflow-auto border-r bg-panel p-2 max-md:hidden">
          <p className="meta mb-1 px-2">{text.viewedCount(viewed.size, files.length)}</p>
          <Tree files={files} viewed={viewed} />
          <p className="meta mt-4 px-2">{text.hint}</p>
        </nav>
        <div className="min-w-0 grow p-3 md:overflow-auto" data-files>
          <div className="mb-2 flex items-center gap-1" role="group" aria-label={text.layout}>
            {!isPhone && ([false, true] as const).map((each) => <Button key={String(each)} small kind={split === each ? "plain" : "quiet"} aria-pressed={split === each} onClick={() => split !== each && turn()}>{each ? text.split : text.unified}</Button>)}
            <span className="meta md:hidden">{text.viewedCount(viewed.size, files.length)}</span>
          </div>
          {diff.isError && <ProblemLine error={diff.error} retry={() => void diff.refetch()} />}
          {files.map((file) => <FileReview key={file.path} change={change.data} file={file} comments={(comments.data ?? []).filter((each) => each.path === file.path)} viewed={viewed.has(file.path)} split={split} toggle={() => setViewed(file.path)} renew={renew} nameOf={nameOf} />)}
        </div>
      </div>
      {verdict && <VerdictDialog id={id} verdict={verdict} against={against} onClose={() => setVerdict(null)} onDone={renew} />}
    </main>
  );
}

/** The first and the last test run of the change's run: the results before and after it. */
function TestsOf({ change }: { change: Change }) {
  const runs = useQuery({ queryKey: ["change-tests", change.session_id], queryFn: async () => (await get<Schemas["TestRunPage"]>(`/sessions/${change.session_id}/tests?limit=100`)).items, retry: false });
  const done = (runs.data ?? []).filter((each) => each.run_id === change.run_id && each.total > 0);
  const [after, before] = [done[0], done.at(-1)];
  if (!after || !before) return change.tests ? <Badge tone={/fail/i.test(change.tests) ? "bad" : "ok"}><SafeText text={change.tests} /></Badge> : <Badge>{text.noTests}</Badge>;
  return (
    <span className="flex items-center gap-1" aria-label={text.tests} role="group">
      {before !== after && <><Badge tone={before.failed ? "bad" : "ok"}>{text.testsBefore(before.failed, before.passed)}</Badge><span aria-hidden="true">→</span></>}
      <Badge tone={after.failed ? "bad" : "ok"}>{text.testsAfter(after.failed, after.passed)}</Badge>
    </span>
  );
}

/** The files by directory. */
function Tree({ files, viewed }: { files: FileDiff[]; viewed: ReadonlySet<string> }) {
  const directories = new Map<string, FileDiff[]>();
  for (const file of files) {
    const directory = file.path.split("/").slice(0, -1).join("/");
    directories.set(directory, [...(directories.get(directory) ?? []), file]);
  }
  return [...directories].map(([directory, list]) => (
    <div key={directory}>
      {directory && <p className="meta mt-1 truncate px-2" title={showHidden(directory)}><SafeText oneLine text={`${directory}/`} /></p>}
      {list.map((file) => (
        <a key={file.path} href={`#${encodeURIComponent(file.path)}`} onClick={(event) => {
          event.preventDefault();
          document.getElementById(file.path)?.scrollIntoView();
          document.getElementById(file.path)?.focus({ preventScroll: true });
        }} className="fade flex h-6 items-center gap-2 rounded-row px-2 hover:bg-hover pointer-coarse:h-11">
          <Icon name={viewed.has(file.path) ? "check" : "file"} size={12} className={viewed.has(file.path) ? "text-ok" : "text-t3"} />
          <span className={`min-w-0 grow truncate ${viewed.has(file.path) ? "text-t3" : ""}`} title={showHidden(file.path)}><SafeText oneLine text={file.path.split("/").pop() ?? file.path} /></span>
          <Added added={file.added} deleted={file.deleted} />
        </a>
      ))}
    </div>
  ));
}

function VerdictDialog({ id, verdict, against, onClose, onDone }: { id: string; verdict: Verdict; against: string[]; onClose: () => void; onDone: () => void }) {
  const [error, setError] = useState<unknown>(null);
  const [force, setForce] = useState(false);
  const titles: Record<Verdict, string> = { approve: text.approve, "request-changes": text.request, merge: text.mergeTitle, close: text.closeTitle };
  const act = (body: unknown) => send(`/changes/${id}/${verdict}`, { method: "POST", ...(verdict === "close" ? {} : { body }) }).then(() => { onDone(); onClose(); }, setError);
  let detail: ReactNode = null;
  if (verdict === "merge") detail = <><p className="text-t2">{text.mergeDetail}</p>{against.length > 0 && <ul className="mt-2 list-disc pl-5 text-warn">{against.map((each) => <li key={each}><SafeText text={each} /></li>)}</ul>}{(error !== null || against.length > 0) && <label className="mt-2 flex items-center gap-2"><input type="checkbox" checked={force} onChange={(event) => setForce(event.target.checked)} className="accent-accent" />{text.force}</label>}</>;
  else if (verdict !== "close") detail = <label className="block text-12 text-t2">{text.say}<textarea name="body" rows={4} className="mt-1 w-full rounded-row border border-edge bg-panel p-2 text-13 text-t1" /></label>;
  return (
    <Dialog title={titles[verdict]} onClose={onClose}>
      <form onSubmit={(event) => {
        event.preventDefault();
        const body = String(new FormData(event.currentTarget).get("body") ?? "");
        void act(verdict === "merge" ? { force } : verdict === "close" ? {} : { body });
      }}>
        {detail}
        {error !== null && <div className="mt-3"><ProblemLine error={error} /></div>}
        <div className="mt-4 flex justify-end gap-2">
          <Button kind="quiet" onClick={onClose}>{strings.session.cancel}</Button>
          <Button type="submit" kind={verdict === "close" ? "danger" : "primary"} disabled={verdict === "merge" && against.length > 0 && !force}>{verdict === "merge" ? text.merge : verdict === "close" ? text.close : text.send}</Button>
        </div>
      </form>
    </Dialog>
  );
}

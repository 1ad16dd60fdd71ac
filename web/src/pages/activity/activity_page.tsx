// The newest events over all sessions that the user may see, live. Each links to its moment in the session.
import { memo, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import type { Schemas } from "../../api/http_client";
import { repositoryName } from "../../display_format";
import { ProblemLine } from "../../shared/error_message";
import { Button } from "../../shared/form_controls";
import { SafeText, showHidden } from "../../shared/safe_text";
import { setPageTitle } from "../../shared/page_title";
import { text as all } from "../../strings/analytics";
import { useHomeKeys } from "../home_keys";
import { ActivityFilters } from "./activity_filters";
import { type Connection, type LiveEvent, MAX_SHOWN, useLiveEvents } from "./live_events";

const text = all.activity;
const NAMES = ["type", "repository", "user", "q"];
const SAYS = ["path", "command", "text", "prompt", "message", "summary", "reason", "tool", "title", "host", "model", "outcome", "name"];
const MAX_SUMMARY = 200;
const STATES: Record<Connection, string> = { connecting: text.connecting, live: text.live, away: text.away, refused: text.refused };

export function ActivityPage({ user }: { user: Schemas["User"] }) {
  const [params, setParams] = useSearchParams();
  const query = new URLSearchParams([...params].filter(([name, value]) => NAMES.includes(name) && value)).toString();
  useEffect(() => {
    setPageTitle(text.title);
  }, []);
  const set = (name: string, values: string[]) => setParams((before) => {
    const after = new URLSearchParams(before);
    after.delete(name);
    for (const value of values) after.append(name, value);
    return after;
  }, { replace: true });
  return <Activity params={params} query={query} user={user} set={set} />;
}

type Props = { params: URLSearchParams; query: string; user: Schemas["User"]; set: (name: string, values: string[]) => void };

function Activity({ params, query, user, set }: Props) {
  const [, go] = useLocation();
  const [isPaused, setPaused] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const [known, setKnown] = useState({ types: new Set<string>(), repositories: new Set<string>() });
  useHomeKeys({ field, list, toggle: () => {}, create: () => go("/new") });
  const learn = (events: LiveEvent[]) => setKnown((before) => {
    const types = new Set([...before.types, ...events.map((each) => each.type)]);
    const repositories = new Set([...before.repositories, ...events.flatMap((each) => (each.repoUrl ? [each.repoUrl] : []))]);
    return types.size === before.types.size && repositories.size === before.repositories.size ? before : { types, repositories };
  });
  return (
    <main className="flex h-full flex-col" aria-label={text.title}>
      <header className="flex flex-wrap items-center gap-2 border-b bg-panel px-3 py-2">
        <h1 className="text-14 font-semibold">{text.title}</h1>
        <ActivityFilters params={params} types={params.getAll("type")} seen={[...known.types].sort()} repositories={[...known.repositories].sort()} user={user} field={field} set={set} />
      </header>
      <div ref={list} className="flex min-h-0 grow flex-col"><Events key={query} query={query} isPaused={isPaused} setPaused={setPaused} learn={learn} clear={() => go("/activity")} /></div>
    </main>
  );
}

type EventsProps = { query: string; isPaused: boolean; setPaused: (paused: boolean) => void; learn: (events: LiveEvent[]) => void; clear: () => void };

function Events({ query, isPaused, setPaused, learn, clear }: EventsProps) {
  const events = useLiveEvents(query, isPaused);
  const { shown, waiting } = events;
  const [isLoading, setLoading] = useState(false);
  const learnNow = useRef(learn);
  useEffect(() => {
    learnNow.current(shown);
  }, [shown]);
  const older = () => {
    setLoading(true);
    void events.loadOlder().finally(() => setLoading(false));
  };
  const isLive = events.connection === "live";
  return (
    <>
      <div className="flex flex-wrap items-center gap-3 border-b px-3 py-1 text-12 text-t2">
        <Button small icon={isPaused ? "play" : "pause"} onClick={() => setPaused(!isPaused)}>{!isPaused ? text.pause : waiting.length > 0 ? text.resumeNew(waiting.length) : text.resume}</Button>
        <span role="status" className="flex items-center gap-1.5" data-connection={events.connection}>
          <span aria-hidden="true" className={`size-2 rounded-full ${isPaused || !isLive ? "bg-warn" : "bg-ok"}`} />
          {isPaused ? text.paused : STATES[events.connection]}
        </span>
        {shown.length >= MAX_SHOWN && <span>{text.dropped(shown.length)}</span>}
      </div>
      <div tabIndex={0} role="region" aria-label={text.events} className="inset-focus min-h-0 grow overflow-auto pb-6">
        {events.error !== null && <div className="p-3"><ProblemLine error={events.error}><Button kind="quiet" small onClick={clear}>{all.clear}</Button></ProblemLine></div>}
        {events.isLoaded && shown.length === 0 && <Empty isFiltered={query !== ""} hasOlder={events.next !== null} clear={clear} />}
        <ol>{shown.map((each) => <Row key={each.position} event={each} />)}</ol>
        {events.next !== null && <div className="p-3"><Button kind="quiet" disabled={isLoading} onClick={older}>{text.older}</Button></div>}
      </div>
    </>
  );
}

function Empty({ isFiltered, hasOlder, clear }: { isFiltered: boolean; hasOlder: boolean; clear: () => void }) {
  return (
    <div className="p-6 text-center text-t2">
      <p>{!isFiltered ? text.empty : hasOlder ? text.searching : text.nothing}</p>
      {isFiltered ? <Button kind="quiet" onClick={clear}>{all.clear}</Button> : <p className="mt-2"><Link href="/new" className="text-link underline">{text.start}</Link></p>}
      <p className="meta mt-2">{text.commandAbout} <code>{text.command}</code></p>
    </div>
  );
}

function summaryOf(event: LiveEvent): string {
  const found = SAYS.map((name) => event.data[name]).find((each) => typeof each === "string" && each);
  return String(found ?? "").slice(0, MAX_SUMMARY).replaceAll("\n", " ");
}

const Row = memo(function Row({ event }: { event: LiveEvent }) {
  const [isOpen, setOpen] = useState(false);
  const json = useMemo(() => (isOpen ? JSON.stringify(event.data, null, 1) : ""), [isOpen, event]);
  const at = new Date(event.timestamp);
  return (
    <li className="border-b px-3 text-12" data-type={event.type}>
      <div className="flex min-h-7 flex-wrap items-center gap-x-3 pointer-coarse:min-h-11">
        <time dateTime={at.toISOString()} title={at.toLocaleString("en-GB")} className="w-16 shrink-0 text-t3 tabular-nums">{at.toLocaleTimeString("en-GB")}</time>
        <button type="button" data-row={event.position} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} className="inset-focus flex min-h-6 min-w-0 grow basis-48 items-center gap-3 text-left hover:bg-hover">
          <span className="w-40 shrink-0 truncate font-mono max-sm:w-32"><SafeText text={event.type} oneLine /></span>
          <span className="min-w-0 truncate text-t2"><SafeText text={summaryOf(event)} oneLine /></span>
        </button>
        {event.repoUrl && <span className="max-w-40 truncate text-t3 max-sm:hidden" title={showHidden(event.repoUrl)}><SafeText text={repositoryName(event.repoUrl)} oneLine /></span>}
        <Link href={`/s/${event.session}/play?at=${event.seq}`} aria-label={`${text.moment}: ${event.type} ${event.seq}`} className="inline-flex min-h-6 items-center text-link underline">{text.open}</Link>
      </div>
      {isOpen && (
        <div className="pb-2">
          <p className="flex flex-wrap gap-x-4 text-t2"><Link href={`/s/${event.session}`} className="text-link underline">{text.session}</Link>{event.prompt && <span className="min-w-0 break-words">{text.prompt}: <SafeText text={event.prompt.slice(0, MAX_SUMMARY)} /></span>}</p>
          <pre tabIndex={0} aria-label={text.fields} className="inset-focus mt-1 max-h-72 overflow-auto rounded-card border bg-code p-2 whitespace-pre-wrap [overflow-wrap:anywhere]"><SafeText text={json} /></pre>
        </div>
      )}
    </li>
  );
});

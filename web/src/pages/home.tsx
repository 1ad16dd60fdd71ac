// The sessions by state, those that need a person first, and the changes that wait for a review.
import { Fragment, Suspense, lazy, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { type Schemas, type Session } from "../api/http_client";
import { useChanges, useCosts, useSessions, useWaitsFor } from "../api/queries";
import { useIsListLive } from "../api/session_list_stream";
import { ago, dollars, modelName, repositoryName, titleOf } from "../display_format";
import { Button, Field, Keys } from "../shared/form_controls";
import { Icon } from "../shared/icons";
import { useNow } from "../shared/current_time";
import { setNotifying, useNotifying } from "../shared/notifications";
import { ProblemLine } from "../shared/error_message";
import { SafeText, showHidden } from "../shared/safe_text";
import { StateMark } from "../shared/session_state_mark";
import { setPageTitle } from "../shared/page_title";
import { waitingSessions } from "../shared/waiting_sessions";
import { strings } from "../strings";
import { text as helperText } from "../strings/helper_agents_and_tries";
import { ChangeRow } from "./proposed_change_row";
import { useHomeKeys } from "./home_keys";

// Dialogs are loaded when they are opened, so the list is shown sooner.
const NewSession = lazy(async () => ({ default: (await import("./new_session")).NewSession }));
const EndDialog = lazy(async () => ({ default: (await import("./end_session_dialog")).EndDialog }));

const GROUPS = [
  { key: "waiting", name: strings.home.needsYou, states: ["waiting"], open: true },
  { key: "running", name: strings.home.running, states: ["running", "starting"], open: true },
  { key: "queued", name: strings.home.queued, states: ["queued"], open: true },
  { key: "idle", name: strings.home.idle, states: ["idle", "paused"], open: true },
  { key: "parked", name: strings.home.parked, states: ["parked"], open: false },
  { key: "ended", name: strings.home.ended, states: ["ended"], open: false },
] as const;

export { titleOf } from "../display_format";
type Me = Schemas["User"];
const BAD = new Set(["failed", "tests_failing", "limit_reached"]);

export function Home({ user, creating = false }: { user: Me; creating?: boolean }) {
  const [, go] = useLocation();
  const [params, setParams] = useSearchParams();
  const filter = params.get("q") ?? "";
  const words = useDeferredValue(filter.trim());
  const sessions = useSessions(words);
  const costs = useCosts();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [ending, setEnding] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);

  const mine = params.get("who") === "mine";
  const repository = params.get("repository") ?? "";
  const state = params.get("state") ?? "";
  const isLive = useIsListLive();
  const all = useMemo(() => sessions.data?.pages.flatMap((page) => page.items) ?? [], [sessions.data]);
  const shown = useMemo(
    () => all.filter((each) => (!mine || each.owner === user.id) && (!repository || repositoryName(each.repository) === repository) && (!state || GROUPS.some((group) => group.key === state && (group.states as readonly string[]).includes(each.state)))),
    [all, mine, repository, state, user.id],
  );
  const repositories = useMemo(() => [...new Set(all.map((each) => each.repository).filter(Boolean).map(repositoryName))].sort(), [all]);
  const needing = waitingSessions(all).length;
  const set = (name: string, value: string) =>
    setParams((before) => {
      const after = new URLSearchParams(before);
      if (value) after.set(name, value);
      else after.delete(name);
      return after;
    }, { replace: true });
  const toggle = (id: string) => setSelected((before) => (before.has(id) ? new Set([...before].filter((each) => each !== id)) : new Set([...before, id])));

  useEffect(() => {
    setPageTitle(`${needing ? `(${needing}) ` : ""}${strings.home.title}`);
  }, [needing]);
  const helpers = useMemo(() => helpersByParent(shown), [shown]);
  useHomeKeys({ field, list, toggle, create: () => go("/new") });

  const isFiltered = Boolean(words || mine || repository || state);
  const isQuiet = shown.length > 0 && !isFiltered && !GROUPS.some((group) => group.open && shown.some((each) => (group.states as readonly string[]).includes(each.state)));
  const mayCreate = user.role !== "observer" && user.role !== "assessor";
  return (
    <main className="flex h-full flex-col" aria-label={strings.home.title}>
      <header className="flex flex-wrap items-center gap-2 border-b bg-panel px-3 py-2">
        <h1 className="sr-only">{strings.home.title}</h1>
        <label className="relative flex min-w-40 grow items-center sm:max-w-sm">
          <Icon name="search" size={14} className="absolute left-2 text-t3" />
          <span className="sr-only">{strings.home.filter}</span>
          <Field ref={field} type="search" value={filter} placeholder={strings.home.filter} onChange={(event) => set("q", event.target.value)} className="w-full pl-7" aria-keyshortcuts="/" />
        </label>
        <Choice label={strings.home.mine} value={mine ? "mine" : ""} onChange={(value) => set("who", value)} options={[["", strings.home.everyone], ["mine", strings.home.mine]]} />
        <Choice label={strings.home.state} value={state} onChange={(value) => set("state", value)} options={[["", strings.home.anyState], ...GROUPS.map((group): [string, string] => [group.key, group.name])]} />
        {repositories.length > 1 && (
          <Choice label={strings.home.repository} value={repository} onChange={(value) => set("repository", value)} options={[["", strings.home.anyRepository], ...repositories.map((name): [string, string] => [name, name])]} />
        )}
        <span className="grow" />
        {!isLive && sessions.isSuccess && <span className="meta max-md:hidden">{strings.home.polling}</span>}
        {selected.size === 0 && <NotifyButton />}
        {selected.size > 0 && (
          <>
            <span className="meta" role="status">{strings.home.selected(selected.size)}</span>
            <Button kind="danger" onClick={() => setEnding(true)}>{strings.home.end}</Button>
          </>
        )}
        {mayCreate && <Button kind="primary" icon="plus" keys="c" onClick={() => go("/new")}>{strings.home.new}</Button>}
      </header>
      <div ref={list} className="min-h-0 grow overflow-auto pb-6">
        {sessions.isError && <div className="p-3"><ProblemLine error={sessions.error} retry={() => void sessions.refetch()} /></div>}
        {sessions.isPending && <Skeleton />}
        {sessions.isSuccess && shown.length === 0 && (isFiltered ? <Nothing clear={() => setParams({})} /> : <Empty create={mayCreate ? () => go("/new") : null} />)}
        {isQuiet && mayCreate && <Quiet />}
        {GROUPS.map((group) => (
          <Fragment key={group.name}>
          {group.key === "idle" && !isFiltered && <Changes />}
          <Group name={group.name} open={group.open || isFiltered || isQuiet} helpers={helpers} sessions={shown.filter((each) => !helpers.ids.has(each.id) && (group.states as readonly string[]).includes(each.state))} costs={costs.data} selected={selected} toggle={toggle} />
          </Fragment>
        ))}
        {sessions.hasNextPage && (
          <div className="p-3"><Button kind="quiet" onClick={() => void sessions.fetchNextPage()}>{strings.home.loadMore}</Button></div>
        )}
      </div>
      <Suspense fallback={null}>
        {creating && <NewSession recent={all} onClose={() => go("/")} />}
        {ending && <EndDialog ids={[...selected]} onClose={() => setEnding(false)} onDone={() => setSelected(new Set())} />}
      </Suspense>
    </main>
  );
}

function NotifyButton() {
  const state = useNotifying();
  if (state === "missing" || state === "refused") return null; // the settings say why
  return <Button kind="quiet" aria-pressed={state === "on"} onClick={() => void setNotifying(state !== "on")}><Icon name="bell" size={14} /><span className="max-md:sr-only">{state === "on" ? strings.notify.on : strings.notify.ask}</span></Button>;
}

function Choice({ label, value, onChange, options }: { label: string; value: string; onChange: (value: string) => void; options: [string, string][] }) {
  return (
    <select aria-label={label} value={value} onChange={(event) => onChange(event.target.value)} className="h-7 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1 pointer-coarse:h-11">
      {options.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
    </select>
  );
}

type Costs = ReadonlyMap<string, Schemas["hutch__gateway__rest__usage__Usage"]> | undefined;
type Helpers = { ids: ReadonlySet<string>; of: ReadonlyMap<string, Session[]> };

/** Helpers are shown below the session whose agent started them, if that is in the list. */
function helpersByParent(sessions: Session[]): Helpers {
  const known = new Set(sessions.map((each) => each.id));
  const of = new Map<string, Session[]>();
  for (const each of sessions) if (each.parent && known.has(each.parent)) of.set(each.parent, [each, ...(of.get(each.parent) ?? [])]);
  return { ids: new Set([...of.values()].flat().map((each) => each.id)), of };
}

function withHelpers(session: Session, helpers: Helpers, depth = 0): { session: Session; depth: number }[] {
  return [{ session, depth }, ...(helpers.of.get(session.id) ?? []).flatMap((each) => withHelpers(each, helpers, depth + 1))];
}

type GroupProps = { name: string; open: boolean; sessions: Session[]; helpers: Helpers; costs: Costs; selected: ReadonlySet<string>; toggle: (id: string) => void };

function Group({ name, open, sessions, helpers, costs, selected, toggle }: GroupProps) {
  if (sessions.length === 0) return null;
  return (
    <details open={open} className="group">
      <summary className="inset-focus sticky top-0 z-10 flex h-7 list-none items-center gap-1.5 border-b bg-frame px-3 text-11 font-semibold tracking-wide text-t2 uppercase">
        <Icon name="chevron" size={12} className="fade group-open:rotate-90" />
        <h2>{name}</h2>
        <span className="font-normal text-t3">{sessions.length}</span>
      </summary>
      <ul>
        {sessions.flatMap((session) => withHelpers(session, helpers)).map(({ session, depth }) => <Row key={session.id} session={session} depth={depth} usage={costs?.get(session.id)} selected={selected.has(session.id)} toggle={toggle} />)}
      </ul>
    </details>
  );
}

type RowProps = { session: Session; depth: number; usage: Schemas["hutch__gateway__rest__usage__Usage"] | undefined; selected: boolean; toggle: (id: string) => void };

function Row({ session, depth, usage, selected, toggle }: RowProps) {
  const now = useNow();
  const title = titleOf(session);
  const failed = session.state === "idle" && session.last_run && BAD.has(session.last_run.outcome) ? session.last_run : null;
  const asks = useWaitsFor(session.id, session.state === "waiting");
  const waits = session.state === "waiting" ? (asks.data ? strings.home.waits(asks.data.kind, asks.data.text) : "") : session.state === "queued" && session.queue_position ? strings.home.position(session.queue_position) : session.reason || lastRunOf(session, failed !== null);
  return (
    <li className={`fade relative flex h-8 items-center gap-2 border-b px-3 hover:bg-hover has-[a:focus-visible]:bg-hover pointer-coarse:h-11 ${selected ? "bg-selected" : "bg-panel"}`}>
      <input type="checkbox" checked={selected} onChange={() => toggle(session.id)} aria-label={strings.home.select(title)} className="z-10 size-4 shrink-0 accent-accent" data-select={session.id} />
      <span className="flex w-2.5 shrink-0 justify-center">{failed ? <Icon name="cross" size={10} className="text-bad" /> : <StateMark state={session.state} word={false} />}</span>
      {depth > 0 && <span className="shrink-0 text-t3" style={{ paddingLeft: `${(depth - 1) * 1.25}rem` }} title={helperText.below}>└<span className="sr-only">{helperText.below}</span></span>}
      <Link href={`/s/${session.id}`} data-row={session.id} className="inset-focus max-w-[55%] shrink-0 truncate font-semibold after:absolute after:inset-0 sm:max-w-[45%]">
        <SafeText text={title} />
      </Link>
      <span className={`min-w-0 grow truncate ${failed ? "text-bad" : "text-t2"}`}><SafeText text={waits} /></span>
      <span className="w-28 shrink-0 truncate text-t2 max-md:hidden" title={showHidden(session.repository)}>{session.repository && <SafeText text={repositoryName(session.repository)} />}</span>
      <span className="w-32 shrink-0 truncate text-12 text-t3 max-lg:hidden" title={showHidden(session.model)}>{session.model && modelName(session.model)}</span>
      <span className="w-20 shrink-0 truncate text-t3 max-md:hidden"><SafeText text={session.owner_name} /></span>
      <span className="w-14 shrink-0 text-right text-t2 max-sm:hidden">{usage && (usage.turns > 0) ? (usage.unpriced && !usage.cost_usd ? "—" : dollars(usage.cost_usd)) : "—"}</span>
      <time className="w-10 shrink-0 text-right text-12 whitespace-nowrap text-t3">{ago(session.updated_ms, now)}</time>
    </li>
  );
}

/** The outcome of the last run: a failure with its reason, anything else in a word. */
function lastRunOf(session: Session, failed: boolean): string {
  const last = session.last_run;
  if (!last?.outcome || session.state === "running") return "";
  const outcome = strings.session.outcome[last.outcome] ?? last.outcome;
  return failed ? strings.home.lastRun(outcome, last.reason) : outcome;
}

function Changes() {
  const changes = useChanges();
  const now = useNow();
  if (!changes.data?.length) return null;
  return (
    <section aria-labelledby="to-review">
      <div className="sticky top-0 flex h-7 items-center gap-1.5 border-b bg-frame px-3 text-11 font-semibold tracking-wide text-t2 uppercase">
        <Icon name="diff" size={12} />
        <h2 id="to-review">{strings.home.review}</h2>
        <span className="font-normal text-t3">{changes.data.length}</span>
        <span className="grow" />
        <Link href="/changes" className="text-12 font-normal tracking-normal text-link normal-case underline">{strings.changeList.all}</Link>
      </div>
      <ul>
        {changes.data.map((change) => <ChangeRow key={change.id} change={change} now={now} />)}
      </ul>
    </section>
  );
}

const startLink = "fade inline-flex h-7 items-center gap-1.5 rounded-row border border-edge bg-panel px-2.5 hover:bg-hover pointer-coarse:h-11";

/** Sessions of the past only, such as those of the command line: the way on stands above them. */
function Quiet() {
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-2 border-b bg-panel px-3 py-2">
      <p className="min-w-0 text-t2">{strings.home.quiet}</p>
      <Link href="/start" className={startLink}><Icon name="play" size={14} />{strings.home.guided}</Link>
    </div>
  );
}

function Empty({ create }: { create: (() => void) | null }) {
  if (!create) return <p className="mx-auto mt-[18vh] max-w-xl p-6 text-center text-t2">{strings.home.emptyWatcher}</p>;
  return (
    <div className="mx-auto mt-[18vh] max-w-xl p-6 text-center">
      <p className="text-16">{strings.home.empty}</p>
      <p className="mt-1 text-t2">{strings.home.teach}</p>
      <div className="mt-4 flex justify-center gap-2">
        <Button kind="primary" icon="plus" onClick={create}>{strings.home.new}</Button>
        <Link href="/start" className={startLink}><Icon name="play" size={14} />{strings.home.guided}</Link>
      </div>
      <p className="meta mt-3">{strings.home.guidedAbout}</p>
      <p className="meta mt-4 pointer-coarse:hidden"><Keys keys="c" /> {strings.home.new} · <Keys keys="Ctrl K" /> {strings.nav.palette} · <Keys keys="?" /> {strings.keys.title}</p>
    </div>
  );
}

function Nothing({ clear }: { clear: () => void }) {
  return (
    <div className="mx-auto mt-[18vh] max-w-md p-6 text-center text-t2">
      <p>{strings.home.nothing}</p>
      <Button className="mt-3" onClick={clear}>{strings.home.clear}</Button>
    </div>
  );
}

const Skeleton = () => (
  <div aria-hidden="true">
    {Array.from({ length: 8 }, (_, index) => (
      <div key={index} className="flex h-8 items-center gap-3 border-b bg-panel px-3"><span className="skeleton size-4" /><span className="skeleton h-3 w-64" /></div>
    ))}
  </div>
);

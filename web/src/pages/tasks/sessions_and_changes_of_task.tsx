// The sessions that work on a task, the changes that they propose, and other links.
import { Link } from "wouter";
import { useQuery } from "@tanstack/react-query";
import { type Change, type Schemas, asProblem, get } from "../../api/http_client";
import { useChangesOf, useSession } from "../../api/queries";
import { titleOf } from "../../display_format";
import { Badge } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { SafeText } from "../../shared/safe_text";
import { StateMark } from "../../shared/session_state_mark";
import { strings } from "../../strings";
import { text } from "../../strings/tasks";
import { ChangeState } from "../proposed_change_row";
import type { Task } from "./task_values_filter_and_order";

const BAD = new Set(["failed", "tests_failing", "limit_reached"]);
const CHANGE_MS = 5000;

export function TaskWork({ task }: { task: Task }) {
  const targets = (kind: Schemas["TaskLink"]["kind"]) => task.links.filter((each) => each.kind === kind).map((each) => each.target);
  const sessions = targets("session").reverse();
  const others = task.links.filter((each) => each.kind === "pull_request" || each.kind === "issue");
  return (
    <section aria-label={text.page.work} className="border-t pt-3">
      <h2 className="text-12 font-semibold text-t2">{text.page.work}</h2>
      {sessions.length === 0 && targets("change").length === 0 && <p className="mt-1 text-t3">{text.page.noWork}</p>}
      <ul className="mt-1 space-y-1">
        {sessions.map((id) => <LinkedSession key={id} id={id} />)}
        {targets("change").map((id) => <LinkedChange key={id} id={id} shownSessions={sessions} />)}
      </ul>
      {others.length > 0 && <h2 className="mt-3 text-12 font-semibold text-t2">{text.page.otherLinks}</h2>}
      <ul>{others.map((each) => <li key={each.target} className="flex min-h-7 items-center gap-2"><Icon name="globe" size={14} className="text-t3" /><SafeAddress address={each.target} /></li>)}</ul>
    </section>
  );
}

function LinkedSession({ id }: { id: string }) {
  const session = useSession(id);
  const changes = useChangesOf(id, session.isSuccess);
  if (session.isError) return <li className="text-12 text-t3"><code>{id.slice(-6)}</code> {asProblem(session.error).status === 404 ? text.page.gone : asProblem(session.error).message}</li>;
  if (!session.data) return <li className="skeleton h-7" aria-hidden="true" />;
  const last = session.data.last_run;
  return (
    <li className="rounded-card border bg-panel p-2">
      <div className="flex min-w-0 items-center gap-2">
        <StateMark state={session.data.state} word={false} />
        <Link href={`/s/${id}`} className="min-w-0 grow truncate font-semibold hover:underline"><SafeText text={titleOf(session.data)} /></Link>
        <span className="shrink-0 text-12 text-t3">{strings.state[session.data.state]}</span>
      </div>
      {last?.outcome && session.data.state !== "running" && <p className={`mt-0.5 truncate text-12 ${BAD.has(last.outcome) ? "text-bad" : "text-t3"}`}>{strings.session.outcome[last.outcome] ?? last.outcome}{last.reason && BAD.has(last.outcome) && <>: <SafeText text={last.reason} /></>}</p>}
      {changes.data && changes.data.length > 0 && <ul className="mt-1">{changes.data.map((each) => <ChangeLine key={each.id} change={each} />)}</ul>}
    </li>
  );
}

/** A change that no shown session lists already. */
function LinkedChange({ id, shownSessions }: { id: string; shownSessions: string[] }) {
  const change = useQuery({ queryKey: ["changes", "one", id], queryFn: () => get<Change>(`/changes/${id}`), refetchInterval: CHANGE_MS });
  if (!change.data) return change.isError ? <li className="text-12 text-t3"><code>{id.slice(-6)}</code> {text.page.gone}</li> : null;
  return shownSessions.includes(change.data.session_id) ? null : <ChangeLine change={change.data} />;
}

function ChangeLine({ change }: { change: Change }) {
  return (
    <li className="flex min-h-7 min-w-0 items-center gap-2">
      <Icon name="diff" size={14} className="text-t3" />
      <Link href={`/c/${change.id}`} className="min-w-0 grow truncate hover:underline"><SafeText text={change.title} /></Link>
      {change.tests && <Badge tone={/fail/i.test(change.tests) ? "bad" : "ok"}><SafeText text={change.tests} /></Badge>}
      <ChangeState state={change.state} />
    </li>
  );
}

function SafeAddress({ address }: { address: string }) {
  if (!/^https?:\/\//.test(address)) return <span className="min-w-0 break-all"><SafeText text={address} /></span>;
  return <a href={address} target="_blank" rel="noopener noreferrer" className="min-w-0 break-all text-link underline"><SafeText text={address} /></a>;
}

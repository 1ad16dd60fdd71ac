// All interviews in which the user has a role, live: state, candidate, question, clock, level, and tasks of the assessor.
import { useEffect } from "react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Redirect, useLocation } from "wouter";
import { type Schemas, get } from "../../api/http_client";
import { onSession } from "../../api/session_list_stream";
import { ProblemLine } from "../../shared/error_message";
import { Badge, Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { usePageCommands } from "../../shared/page_commands";
import { SafeText } from "../../shared/safe_text";
import { setPageTitle } from "../../shared/page_title";
import { text } from "../../strings/interviews";
import { type Interview, isOwnerSide, languageName, useInterviews } from "./interview_api";
import { InterviewClock } from "./interview_clock";
import { NewInterview } from "./new_interview";

const GROUPS: { name: string; phases: string[] }[] = [{ name: "running", phases: ["running", "paused"] }, { name: "planned", phases: ["planned"] }, { name: "ended", phases: ["ended"] }, { name: "closed", phases: ["closed"] }];
const SCORE_MS = 10_000;

export function InterviewList({ user, creating = false }: { user: Schemas["User"]; creating?: boolean }) {
  const [, go] = useLocation();
  const queries = useQueryClient();
  const interviews = useInterviews();
  const mayPlan = user.role === "owner" || user.role === "member";
  useEffect(() => onSession(() => void queries.invalidateQueries({ queryKey: ["interviews"] })), [queries]);
  const all = interviews.data ?? [];
  const needing = all.filter((each) => needsOf(each) !== "").length;
  useEffect(() => {
    setPageTitle(`${needing ? `(${needing}) ` : ""}${text.title}`);
  }, [needing]);
  usePageCommands(mayPlan ? [{ label: text.new, icon: "plus", run: () => go("/interviews/new") }] : []);
  const only = all[0];
  if (user.role === "candidate" && all.length === 1 && only) return <Redirect to={`/i/${only.id}`} replace />;
  return (
    <main aria-label={text.title} className="flex h-full flex-col">
      <header className="flex items-center gap-2 border-b bg-panel px-3 py-2">
        <h1 className="text-14 font-semibold">{text.title}</h1>
        <span className="grow" />
        {mayPlan && <Button kind="primary" icon="plus" onClick={() => go("/interviews/new")}>{text.new}</Button>}
      </header>
      <div className="min-h-0 grow overflow-auto pb-6">
        {interviews.isError && <div className="p-3"><ProblemLine error={interviews.error} retry={() => void interviews.refetch()} /></div>}
        {interviews.isSuccess && all.length === 0 && (
          <div className="mx-auto mt-[18vh] max-w-xl p-6 text-center">
            <p className="text-16">{mayPlan ? text.empty : text.emptyOthers}</p>
            {mayPlan && <Button className="mt-4" kind="primary" icon="plus" onClick={() => go("/interviews/new")}>{text.new}</Button>}
          </div>
        )}
        {GROUPS.map((group) => {
          const found = all.filter((each) => group.phases.includes(each.phase));
          return found.length > 0 && (
            <section key={group.name} aria-labelledby={`group-${group.name}`}>
              <div className="sticky top-0 z-10 flex h-7 items-center gap-1.5 border-b bg-frame px-3 text-11 font-semibold tracking-wide text-t2 uppercase">
                <h2 id={`group-${group.name}`}>{text.groups[group.name]}</h2>
                <span className="font-normal text-t3">{found.length}</span>
              </div>
              <ul>{found.map((each) => <Row key={each.id} interview={each} receivedMs={interviews.dataUpdatedAt} />)}</ul>
            </section>
          );
        })}
      </div>
      {creating && mayPlan && <NewInterview onClose={() => go("/interviews")} />}
    </main>
  );
}

/** The step that waits for an assessor, in a few words. */
export function needsOf(interview: Interview): string {
  if (!isOwnerSide(interview)) return "";
  if (interview.proposal) return text.needs.proposal(text.levels[interview.proposal.level] ?? interview.proposal.level);
  if (interview.phase === "planned" && interview.attended && interview.candidate && (interview.consented || !interview.consent)) return text.needs.ready;
  if (interview.phase === "running" && interview.clock.offline_since_ms !== null) return text.needs.offline;
  if (interview.phase === "ended") return text.needs.rate;
  return "";
}

export const addressOf = (interview: Interview) => (interview.role === "candidate" ? `/i/${interview.id}` : `/i/${interview.id}/assess`);

function Row({ interview, receivedMs }: { interview: Interview; receivedMs: number }) {
  const { question, phase } = interview;
  const needs = needsOf(interview);
  const isOpen = phase === "running" || phase === "paused";
  return (
    <li className="fade relative flex min-h-10 flex-wrap items-center gap-x-3 gap-y-1 border-b bg-panel px-3 py-1 xl:flex-nowrap hover:bg-hover has-[a:focus-visible]:bg-hover">
      <PhaseMark interview={interview} />
      <Link href={addressOf(interview)} className="inset-focus w-52 shrink-0 truncate font-semibold after:absolute after:inset-0"><SafeText text={interview.title} /></Link>
      <span className="w-36 truncate text-t2"><Icon name="person" size={12} className="mr-1 inline text-t3" />{interview.candidate_name ? <SafeText text={interview.candidate_name} /> : <span className="text-t3">{text.noCandidate}</span>}</span>
      <span className="min-w-0 grow basis-0 truncate text-t2">{question ? <>{text.questionOf(question.number, interview.question_count)} · <SafeText text={question.title} /> · {languageName(question.language)}</> : text.questions(interview.question_count)}</span>
      {needs && <Badge tone="warn">{needs}</Badge>}
      {isOpen && isOwnerSide(interview) && <Score id={interview.id} />}
      {isOpen && <span className="w-24 truncate text-12 text-t2">{interview.ai ? text.levels[question?.level ?? ""] ?? "" : text.withoutAi}</span>}
      {isOpen && <InterviewClock clock={interview.clock} receivedMs={receivedMs} />}
      {(phase === "ended" || phase === "closed") && isOwnerSide(interview) && <Link href={`/i/${interview.id}/report`} className="relative z-10 text-link underline">{text.report}</Link>}
    </li>
  );
}

export function PhaseMark({ interview }: { interview: Interview }) {
  const tones = { planned: "info", running: "ok", paused: "warn", ended: "none", closed: "none" } as const;
  return <Badge tone={tones[interview.phase]}>{text.phases[interview.phase]}</Badge>;
}

function Score({ id }: { id: string }) {
  const newest = useQuery({
    queryKey: ["struggle", id],
    refetchInterval: SCORE_MS,
    queryFn: async () => ((await get<Schemas["EventSearchPage"]>(`/sessions/${id}/events/search?kind=struggle.measured&order=newest&limit=1`)).items[0]?.event as { score?: number } | undefined)?.score ?? null,
  });
  if (newest.data === undefined || newest.data === null) return null;
  return <span className={`text-12 ${newest.data >= 0.6 ? "text-warn" : "text-t3"}`}>{text.score(newest.data.toFixed(2))}</span>;
}

// Before the interview: checks of the candidate's system, the list of recorded data and of observers, and the consent.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { Schemas } from "../../api/http_client";
import { post } from "../../api/http_client";
import { ProblemLine } from "../../shared/error_message";
import { Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { text as all } from "../../strings/interviews";
import { type Check, type Interview, languageName, useStep } from "./interview_api";
import { MessageStrip } from "./room_messages";
import type { RoomLog } from "./room_log";

const text = all.lobby;

export function Lobby({ interview, user, room }: { interview: Interview; user: Schemas["User"]; room: RoomLog }) {
  const { id } = interview;
  const step = useStep(id);
  const queries = useQueryClient();
  const server = useQuery({
    queryKey: ["lobby", id],
    staleTime: Infinity,
    queryFn: async () => {
      const found = await post<{ checks: Check[]; interview: Interview }>(`/interviews/${id}/lobby`);
      queries.setQueryData(["interview", id], found.interview);
      return found.checks;
    },
  });
  const checks: Check[] = [
    { name: text.checks["storage"] ?? "", ...storageWorks(), required: true },
    { name: text.checks["live"] ?? "", ok: room.isLive, message: "", required: true },
    ...(server.data ?? []),
  ];
  const isChecking = server.isFetching || !room.isLoaded;
  const hasAgreed = interview.consented || !interview.consent;
  const minutes = Math.round(interview.clock.remaining_ms / 60_000);
  const rules = [text.rulesList.recorded, interview.attended ? text.rulesList.watchedAttended : text.rulesList.watched, text.rulesList.clock, interview.ai ? text.rulesList.ai : text.rulesList.noAi, text.rulesList.hidden];
  return (
    <main className="h-full overflow-auto p-6 max-sm:p-3">
      <div className="mx-auto max-w-2xl space-y-4 pb-8">
        <header>
          <p className="text-t2"><SafeText text={text.about(interview.company, interview.job_role)} /></p>
          <h1 className="text-20 font-semibold"><SafeText text={interview.title} /></h1>
          <p className="mt-1 text-14 text-t2"><SafeText text={text.welcome(user.name)} />. {text.what(interview.question_count, minutes)}</p>
        </header>
        <MessageStrip interview={interview} room={room} me={user} />
        <section aria-label={text.check} className="rounded-card border bg-panel p-4">
          <h2 className="font-semibold">{text.check}</h2>
          <ul className="mt-2 space-y-1">
            {checks.map((each) => (
              <li key={each.name} className="flex items-baseline gap-2">
                <Icon name={each.ok ? "check" : "cross"} size={12} className={each.ok ? "text-ok" : isChecking ? "text-t3" : each.required ? "text-bad" : "text-warn"} />
                <span className="shrink-0"><SafeText text={text.checks[each.name] ?? languageName(each.name)} /></span>
                <span className={`text-12 ${each.ok || isChecking ? "text-t3" : each.required ? "text-bad" : "text-warn"}`}>{each.ok ? text.ok : isChecking ? text.checking : <>{!each.required && `${text.optional} `}<SafeText text={each.message || text.notOk} /></>}</span>
              </li>
            ))}
            {server.isPending && <li className="text-t3">{text.checking}</li>}
          </ul>
          {server.isError && <div className="mt-2"><ProblemLine error={server.error} /></div>}
          <Button small kind="quiet" icon="retry" className="mt-2" disabled={isChecking} onClick={() => void server.refetch()}>{text.again}</Button>
        </section>
        <section aria-label={text.rules} className="rounded-card border bg-panel p-4">
          <h2 className="font-semibold">{text.rules}</h2>
          <ul className="mt-2 list-disc space-y-1 pl-5 text-14">{rules.map((rule) => <li key={rule}>{rule}</li>)}</ul>
        </section>
        {interview.consent && (
          <section aria-label={text.consent} className="rounded-card border bg-panel p-4">
            <h2 className="font-semibold">{text.consent}</h2>
            <p className="mt-2 text-14 whitespace-pre-wrap"><SafeText text={interview.consent} /></p>
            {interview.consented ? <p className="mt-3 text-ok">✓ {text.agreed}</p> : <Button kind="primary" icon="check" className="mt-3" disabled={step.busy !== ""} onClick={() => void step.take("consent")}>{text.agree}</Button>}
          </section>
        )}
        {step.error !== null && <ProblemLine error={step.error} />}
        <div role="status">
          {interview.attended && hasAgreed && <p className="rounded-card bg-info-tint px-4 py-3 text-14 text-info">{text.waiting}</p>}
        </div>
        {!interview.attended && <Button kind="primary" className="h-9 px-5 text-14" disabled={!hasAgreed || isChecking || step.busy !== ""} title={hasAgreed ? "" : text.first} onClick={() => void step.take("begin")}>{text.begin}</Button>}
        <p className="meta">{strings.hutch} · <SafeText text={interview.owner_name} /></p>
      </div>
    </main>
  );
}

function storageWorks(): { ok: boolean; message: string } {
  try {
    localStorage.setItem("hutch.check", "1");
    localStorage.removeItem("hutch.check");
    return { ok: "indexedDB" in window, message: "" };
  } catch (error) {
    return { ok: false, message: String(error) };
  }
}

// The work of agents on a task: its state, the reason for waiting, the evidence for each criterion, and earlier assignments.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { type Schemas, get, post } from "../../api/http_client";
import { ago } from "../../display_format";
import { useNow } from "../../shared/current_time";
import { ProblemLine } from "../../shared/error_message";
import { Badge, Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { text } from "../../strings/tasks";
import type { Task } from "./task_values_filter_and_order";

export type Assignment = Schemas["Assignment"];
const LIVE_MS = 2000;
const STEPS = ["waiting", "working", "reviewing", "proposed", "done"] as const;
const TONES: Record<Assignment["state"], "none" | "ok" | "warn" | "bad" | "info" | "agent"> = { waiting: "none", working: "agent", reviewing: "agent", proposed: "info", done: "ok", failed: "bad", cancelled: "none" };
export const isOpen = (each: Assignment) => each.state !== "done" && each.state !== "failed" && each.state !== "cancelled";

/** The newest first. */
export const useAssignments = (task: string) =>
  useQuery({ queryKey: ["tasks", "assignments", task], queryFn: async () => (await get<Schemas["Assignments"]>(`/tasks/${task}/assignments`)).items, refetchInterval: LIVE_MS });

export function AgentWork({ task, mayWrite }: { task: Task; mayWrite: boolean }) {
  const assignments = useAssignments(task.id);
  const [newest, ...earlier] = assignments.data ?? [];
  if (!newest) return null;
  return (
    <section aria-label={text.agent.section} className="mb-4 border-t pt-3">
      <h2 className="text-12 font-semibold text-t2">{text.agent.section}</h2>
      <Newest assignment={newest} task={task} mayWrite={mayWrite} />
      {earlier.length > 0 && (
        <details className="mt-1 text-12">
          <summary className="text-t2">{text.agent.earlier(earlier.length)}</summary>
          <ul className="mt-1 space-y-1">{earlier.map((each) => <li key={each.id} className="flex flex-wrap items-center gap-x-2"><Badge tone={TONES[each.state]}>{text.agent.states[each.state]}</Badge><SafeText text={each.persona} />{each.reason && <span className="min-w-0 break-words text-t3"><SafeText text={each.reason} /></span>}</li>)}</ul>
        </details>
      )}
    </section>
  );
}

function Newest({ assignment, task, mayWrite }: { assignment: Assignment; task: Task; mayWrite: boolean }) {
  const now = useNow();
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const cancel = useMutation({
    mutationFn: () => post(`/tasks/${task.id}/assignments/cancel`),
    onSettled: () => {
      setAsking(false);
      void queries.invalidateQueries({ queryKey: ["tasks"] });
    },
  });
  const how = [assignment.reviewer && text.agent.reviewedBy(assignment.reviewer), assignment.merges && text.agent.merges].filter(Boolean).join(" · ");
  return (
    <div className="mt-1 rounded-card border bg-panel p-2">
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <Icon name="spark" size={14} className="text-agent" /><span className="font-semibold"><SafeText text={assignment.persona} /></span>
        <span role="status"><Badge tone={TONES[assignment.state]}>{text.agent.states[assignment.state]}</Badge></span>
        <time dateTime={new Date(assignment.updated_ms).toISOString()} className="meta ml-auto">{ago(assignment.updated_ms, now)}</time>
      </div>
      {how && <p className="mt-0.5 text-12 text-t3"><SafeText text={how} /></p>}
      {isOpen(assignment) && <Steps assignment={assignment} />}
      {assignment.reason && <p className={`mt-1 text-12 break-words ${assignment.state === "failed" ? "text-bad" : "text-t2"}`}><SafeText text={assignment.reason} /></p>}
      <Evidence assignment={assignment} task={task} />
      {cancel.isError && <ProblemLine error={cancel.error} />}
      <div className="mt-1 flex flex-wrap items-center gap-x-3 text-12">
        {assignment.session_id && <Link href={`/s/${assignment.session_id}`} className="inline-flex min-h-6 items-center text-link underline">{text.agent.openSession}</Link>}
        {assignment.session_id && <Link href={`/s/${assignment.session_id}/time`} className="inline-flex min-h-6 items-center text-link underline">{strings.palette.time}</Link>}
        {assignment.change_id && <Link href={`/c/${assignment.change_id}`} className="inline-flex min-h-6 items-center text-link underline">{text.agent.openChange}</Link>}
        {mayWrite && isOpen(assignment) && !asking && <Button kind="quiet" small className="ml-auto" onClick={() => setAsking(true)}>{text.agent.takeBack}</Button>}
      </div>
      {asking && (
        <div className="mt-1 flex flex-wrap items-center gap-2 text-12">
          <span className="grow">{text.agent.takeBackAsk}</span>
          <Button small kind="danger" autoFocus disabled={cancel.isPending} onClick={() => cancel.mutate()}>{text.agent.takeBack}</Button>
          <Button small kind="quiet" onClick={() => setAsking(false)}>{text.page.cancel}</Button>
        </div>
      )}
    </div>
  );
}

/** The steps to the merged change. The review is a step only if there is a reviewer. */
function Steps({ assignment }: { assignment: Assignment }) {
  const steps = STEPS.filter((step) => step !== "reviewing" || assignment.reviewer);
  const at = steps.findIndex((step) => step === assignment.state);
  return (
    <ol className="mt-1.5 flex gap-1 text-11" aria-label={text.agent.steps}>
      {steps.map((step, index) => (
        <li key={step} {...(index === at ? { "aria-current": "step" as const } : {})} className={`min-w-0 grow basis-0 ${index === at ? "font-semibold text-t1" : "text-t3"}`}>
          <span aria-hidden="true" className={`mb-0.5 block h-1 rounded-full ${index <= at ? "bg-accent" : "bg-hover"}`} />
          <span className="block truncate">{text.agent.stepNames[step]}</span>
        </li>
      ))}
    </ol>
  );
}

function Evidence({ assignment, task }: { assignment: Assignment; task: Task }) {
  if (task.fields.criteria.length === 0 || assignment.state === "waiting") return null;
  const proved = new Map(assignment.evidence.map((each) => [each.criterion, each]));
  return (
    <div className="mt-1.5 border-t pt-1.5">
      <h3 className="text-12 text-t2">{text.agent.evidence(proved.size, task.fields.criteria.length)}</h3>
      <ul className="mt-0.5 space-y-1 text-12">
        {task.fields.criteria.map((criterion) => {
          const found = proved.get(criterion.text);
          return (
            <li key={criterion.text} className="flex min-w-0 gap-1.5">
              <Icon name={found ? "check" : "pause"} size={14} className={`mt-0.5 shrink-0 ${found ? "text-ok" : "text-t3"}`} />
              <span className="min-w-0 break-words"><SafeText text={criterion.text} /><span className="block text-t3">{found ? <>{text.agent.evidenceKinds[found.kind]} <code className="break-all"><SafeText text={found.target} /></code></> : text.agent.noEvidence}</span></span>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

// One task: its text, its fields, the work on it, and its history. Each field is edited in place.
import { useEffect, useState } from "react";
import { Link } from "wouter";
import { type Schemas, asProblem } from "../../api/http_client";
import { usePersonas } from "../../api/queries";
import { text } from "../../strings/tasks";
import { ProblemLine } from "../../shared/error_message";
import { Badge, Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { usePageCommands } from "../../shared/page_commands";
import { SafeText } from "../../shared/safe_text";
import { setPageTitle } from "../../shared/page_title";
import { NotFound } from "../not_found";
import { AgentWork, isOpen, useAssignments } from "./agent_work_on_task";
import { AssignAgentDialog } from "./assign_agent_dialog";
import { NamesField, Row, TextField } from "./editable_fields";
import { FileConflicts } from "./tasks_file_conflicts";
import { TaskActivity } from "./task_activity";
import { Choice } from "./task_filters";
import { PriorityMark, TaskStateMark } from "./task_badges";
import { useNames, useTask, useTasks } from "./task_queries";
import { TaskCriteria, TaskDescription, TaskTitle } from "./task_text_and_criteria";
import { PRIORITIES, STATES, type Task, type TaskState, type TaskValues, isEnded } from "./task_values_filter_and_order";
import { TaskWork } from "./sessions_and_changes_of_task";
import { UnsentNotice } from "./unsent_changes_notice";
import { changeTask } from "./unsent_task_changes";

export function TaskPage({ id, user }: { id: string; user: Schemas["User"] }) {
  const { query, task } = useTask(id);
  const title = task ? `${task.key} ${task.fields.title}` : text.title;
  useEffect(() => {
    setPageTitle(title);
  }, [title]);
  if (query.isError && !task) return asProblem(query.error).status === 404 ? <NotFound /> : <main className="p-3"><ProblemLine error={query.error} retry={() => void query.refetch()} /></main>;
  if (!task) return <main aria-label={text.title} aria-busy="true" className="p-6"><h1 className="sr-only">{text.title}</h1><div className="skeleton h-7 w-96 max-w-full" /></main>;
  return <Shown task={task} user={user} />;
}

function Shown({ task, user }: { task: Task; user: Schemas["User"] }) {
  const mayWrite = user.role === "owner" || user.role === "member";
  const [giving, setGiving] = useState(false);
  const names = useNames(user);
  const others = useTasks(task.repository).tasks;
  const waitsFor = task.fields.depends_on.filter((key) => others.some((each) => each.key === key && !isEnded(each.fields.state)));
  const store = (values: TaskValues) => changeTask(task, values);
  const assignments = useAssignments(task.id).data ?? [];
  const mayAssign = mayWrite && !task.archived && !isEnded(task.fields.state) && !assignments.some(isOpen);
  const give = assignments.length > 0 ? text.agent.again : text.agent.give;
  usePageCommands(mayWrite ? [
    ...(mayAssign ? [{ label: give, icon: "play" as const, run: () => setGiving(true) }] : []),
    ...STATES.filter((each) => each !== task.fields.state).map((each) => ({ label: `${text.fields["state"] ?? ""}: ${text.states[each] ?? each}`, icon: "board" as const, run: () => store({ state: each }) })),
    { label: task.archived ? text.page.restore : text.page.archive, icon: "folder", run: () => store({ archived: !task.archived }) },
  ] : []);
  return (
    <main aria-label={`${task.key} ${task.fields.title}`} className="flex h-full flex-col">
      <header className="flex flex-wrap items-center gap-x-3 gap-y-2 border-b bg-panel px-3 py-2">
        <Link href="/tasks" className="inline-flex items-center gap-1 text-t2 hover:text-t1"><Icon name="chevron" size={14} className="rotate-180" />{text.page.back}</Link>
        <span className="font-semibold">{task.key}</span>
        <span className="min-w-0 truncate text-12 text-t3 max-sm:hidden"><SafeText text={task.repository} /></span>
        <span className="grow" />
        {mayWrite && <Button kind="quiet" onClick={() => store({ archived: !task.archived })}>{task.archived ? text.page.restore : text.page.archive}</Button>}
        {mayAssign && <Button kind="primary" icon="play" onClick={() => setGiving(true)}>{give}</Button>}
      </header>
      <UnsentNotice task={task.id} />
      <FileConflicts task={task} mayWrite={mayWrite} />
      {task.archived && <p className="border-b bg-hover px-3 py-1 text-t2">{text.page.archivedNote}</p>}
      <div tabIndex={-1} className="min-h-0 grow overflow-auto">
        <div className="mx-auto grid max-w-6xl gap-x-8 gap-y-6 p-4 lg:grid-cols-[minmax(0,1fr)_320px] lg:grid-rows-[auto_1fr]">
          <div className="min-w-0">
            <TaskTitle task={task} mayWrite={mayWrite} />
            <TaskDescription task={task} mayWrite={mayWrite} />
            <TaskCriteria task={task} mayWrite={mayWrite} />
          </div>
          <section aria-label={text.page.details} className="min-w-0 lg:row-span-2">
            <Fields task={task} others={others} me={user.name} names={names} mayWrite={mayWrite} waitsFor={waitsFor} store={store} />
            <AgentWork task={task} mayWrite={mayWrite} />
            <TaskWork task={task} />
          </section>
          <TaskActivity task={task} names={names} mayWrite={mayWrite} />
        </div>
      </div>
      {giving && <AssignAgentDialog task={task} waitsFor={waitsFor} onClose={() => setGiving(false)} />}
    </main>
  );
}

type FieldsProps = { task: Task; others: Task[]; me: string; names: ReadonlyMap<string, string>; mayWrite: boolean; waitsFor: string[]; store: (values: TaskValues) => void };

function Fields({ task, others, me, names, mayWrite, waitsFor, store }: FieldsProps) {
  const personas = usePersonas();
  const { fields } = task;
  const owners = [...new Set([me, ...[...names.values()].filter((each) => each !== "Hutch"), ...(personas.data?.items ?? []).map((each) => `persona:${each.name}`)])];
  const labels = [...new Set(others.flatMap((each) => each.fields.labels))].sort();
  const byKey = new Map(others.map((each) => [each.key, each]));
  return (
    <dl className="pb-3">
      <Row name="state">
        {!mayWrite && <TaskStateMark state={fields.state} />}
        {mayWrite && <Choice label={text.fields["state"] ?? ""} value={fields.state} onChange={(value) => store({ state: value as TaskState })} options={STATES.map((each): [string, string] => [each, text.states[each] ?? each])} />}
        {waitsFor.length > 0 && !isEnded(fields.state) && <Badge tone="warn">{text.waitsFor(waitsFor.join(", "))}</Badge>}
      </Row>
      <Row name="owner"><TextField name="owner" value={fields.owner} hint={text.page.ownerHint} options={owners} mayWrite={mayWrite} store={(owner) => store({ owner })} /></Row>
      <Row name="priority">
        {!mayWrite && <PriorityMark priority={fields.priority} word />}
        {mayWrite && <Choice label={text.fields["priority"] ?? ""} value={fields.priority} onChange={(value) => store({ priority: value as Task["fields"]["priority"] })} options={[["", text.priorities[""] ?? ""], ...PRIORITIES.map((each): [string, string] => [each, text.priorities[each] ?? each])]} />}
      </Row>
      <Row name="labels"><NamesField names={fields.labels} add={text.page.addLabel} remove={text.page.removeLabel} options={labels} mayWrite={mayWrite} store={(next) => store({ labels: next })} /></Row>
      <Row name="depends_on">
        <NamesField names={fields.depends_on} add={text.page.addDependency} remove={text.page.removeDependency} options={others.filter((each) => each.id !== task.id).map((each) => each.key)} mayWrite={mayWrite} store={(next) => store({ depends_on: next })}
          show={(key) => { const other = byKey.get(key); return other ? <Link href={`/tasks/${other.id}`} title={other.fields.title} className="inline-flex items-center gap-1 text-link underline"><TaskStateMark state={other.fields.state} word={false} />{key}<span className="sr-only"> {text.states[other.fields.state]}</span></Link> : key; }} />
      </Row>
      <Row name="estimate"><TextField name="estimate" value={fields.estimate} hint={text.page.estimateHint} mayWrite={mayWrite} store={(estimate) => store({ estimate })} /></Row>
      <Row name="milestone"><TextField name="milestone" value={fields.milestone} options={[...new Set(others.map((each) => each.fields.milestone).filter(Boolean))]} mayWrite={mayWrite} store={(milestone) => store({ milestone })} /></Row>
      {task.repository && <Row name="repository"><span className="min-w-0 text-12 break-all text-t2"><SafeText text={task.repository} /></span></Row>}
      <Row name="updated"><span className="text-12 text-t3">{text.page.revision(task.revision)} · {text.page.by(names.get(task.created_by) ?? text.page.somebody)}</span></Row>
    </dl>
  );
}

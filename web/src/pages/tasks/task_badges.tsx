// Small marks of a task: state, priority, labels, owner, criteria.
import { Icon } from "../../shared/icons";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/tasks";
import type { Task, TaskState } from "./task_values_filter_and_order";

const TONES: Record<TaskState, string> = { todo: "text-t3", doing: "text-info", blocked: "text-bad", review: "text-agent", done: "text-ok", cancelled: "text-t3" };

/** A shape, a colour and, unless a heading says it, a word. */
export function TaskStateMark({ state, word = true }: { state: TaskState; word?: boolean }) {
  return (
    <span className={`inline-flex items-center gap-1.5 text-12 whitespace-nowrap ${TONES[state]}`}>
      <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" strokeLinejoin="round">
        {state === "done" ? <><circle cx="6" cy="6" r="5" fill="currentColor" stroke="none" /><path d="M3.7 6.2 5.4 7.8 8.4 4.4" stroke="var(--panel)" /></>
          : state === "cancelled" ? <><circle cx="6" cy="6" r="4.5" /><path d="M4 6h4" /></>
          : state === "blocked" ? <><circle cx="6" cy="6" r="4.5" /><path d="M4.4 4.4 7.6 7.6M7.6 4.4 4.4 7.6" /></>
          : <><circle cx="6" cy="6" r="4.5" {...(state === "todo" ? { strokeDasharray: "1.6 2" } : {})} />{state !== "todo" && <path d={state === "doing" ? "M6 3.6a2.4 2.4 0 0 1 0 4.8z" : "M6 3.6a2.4 2.4 0 1 1-2.4 2.4H6z"} fill="currentColor" stroke="none" />}</>}
      </svg>
      {word && text.states[state]}
    </span>
  );
}

const BARS = { urgent: 3, high: 3, medium: 2, low: 1, "": 0 } as const;

/** Bars, with a word for screen readers. Urgent has a sign of its own. */
export function PriorityMark({ priority, word = false }: { priority: Task["fields"]["priority"]; word?: boolean }) {
  if (!priority) return word ? <span className="text-t3">{text.priorities[""]}</span> : null;
  const name = text.priorities[priority];
  return (
    <span title={`${text.fields["priority"]}: ${name}`} className={`inline-flex items-center gap-1 text-12 whitespace-nowrap ${priority === "urgent" ? "text-bad" : priority === "high" ? "text-warn" : "text-t3"}`}>
      <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true" fill="currentColor">
        {priority === "urgent" ? <path d="M1 1h10v10H1zM5.2 2.8v4h1.6v-4zM5.2 7.8v1.5h1.6V7.8z" fillRule="evenodd" /> : [0, 1, 2].map((at) => <rect key={at} x={1 + at * 4} y={7 - at * 3} width="2.4" height={4 + at * 3} opacity={at < BARS[priority] ? 1 : 0.3} />)}
      </svg>
      {word ? name : <span className="sr-only">{name}</span>}
    </span>
  );
}

export function Label({ name }: { name: string }) {
  return <span className="inline-flex h-4 max-w-full items-center rounded-row border border-line px-1 text-11 text-t2"><span className="truncate"><SafeText text={name} /></span></span>;
}

/** A person by the first letters, an agent by its sign. */
export function Owner({ name }: { name: string }) {
  if (!name) return null;
  const isAgent = name.startsWith("persona:");
  const shown = isAgent ? name.slice("persona:".length) : name;
  return (
    <span title={name} className={`inline-flex min-w-0 items-center gap-1 text-12 ${isAgent ? "text-agent" : "text-t2"}`}>
      <Icon name={isAgent ? "spark" : "person"} size={12} />
      <span className="truncate"><SafeText text={shown} /></span>
    </span>
  );
}

export function CriteriaCount({ task }: { task: Task }) {
  const { criteria } = task.fields;
  if (criteria.length === 0) return null;
  const done = criteria.filter((each) => each.done).length;
  return (
    <span title={text.criteria(done, criteria.length)} className={`inline-flex items-center gap-1 text-12 whitespace-nowrap ${done === criteria.length ? "text-ok" : "text-t3"}`}>
      <Icon name="check" size={12} />
      <span aria-hidden="true">{done}/{criteria.length}</span>
      <span className="sr-only">{text.criteria(done, criteria.length)}</span>
    </span>
  );
}

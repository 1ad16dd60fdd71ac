// The values of a task, its order in lists, and filters that the address contains.
import type { Schemas } from "../../api/http_client";

export type Task = Schemas["Task"];
export type TaskEvent = Schemas["TaskEvent"];
export type TaskState = Task["fields"]["state"];
export type TaskValues = Partial<Omit<Schemas["TaskChange"], "revision">>;
export type Criterion = Schemas["Criterion"];

export const STATES = ["todo", "doing", "blocked", "review", "done", "cancelled"] as const satisfies readonly TaskState[];
export const PRIORITIES = ["urgent", "high", "medium", "low"] as const;
export const isEnded = (state: TaskState) => state === "done" || state === "cancelled";

/** A field of a task by the name that a change of it has. */
export function valueOf(task: Task, field: string): unknown {
  return field in task.fields ? task.fields[field as keyof Task["fields"]] : task[field as keyof Task];
}

/** The task with other values, as it will be when they are stored. */
export function withValues(task: Task, values: TaskValues): Task {
  const { description, archived, ...fields } = values;
  const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));
  return { ...task, fields: { ...task.fields, ...given } as Task["fields"], description: description ?? task.description, archived: archived ?? task.archived };
}

export type Filter = { repository: string; owner: string; label: string; priority: string; words: string };
export const NOBODY = "-"; // the owner of a task that has none, in an address

export function filterOf(params: URLSearchParams): Filter {
  const read = (name: string) => params.get(name) ?? "";
  return { repository: read("repository"), owner: read("owner"), label: read("label"), priority: read("priority"), words: read("q") };
}

export const isFiltered = (filter: Filter) => Object.values(filter).some(Boolean);

export function matches(task: Task, filter: Filter): boolean {
  const { fields } = task;
  if (filter.repository && task.repository !== filter.repository) return false;
  if (filter.owner && fields.owner !== (filter.owner === NOBODY ? "" : filter.owner)) return false;
  if (filter.label && !fields.labels.includes(filter.label)) return false;
  if (filter.priority && fields.priority !== filter.priority) return false;
  const words = filter.words.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const all = [task.key, fields.title, fields.owner, fields.milestone, ...fields.labels.map((each) => `#${each}`), task.description].join(" ").toLowerCase();
  return words.every((word) => all.includes(word));
}

const rank = (task: Task) => { const at = PRIORITIES.indexOf(task.fields.priority as "high"); return at < 0 ? PRIORITIES.length : at; };

/** In a column: urgent first, then the newest; ended tasks by the time of their last change. */
export function inColumn(tasks: Task[], state: TaskState): Task[] {
  const found = tasks.filter((task) => task.fields.state === state);
  if (isEnded(state)) return found.sort((one, other) => other.updated_ms - one.updated_ms);
  return found.sort((one, other) => rank(one) - rank(other) || (one.id < other.id ? 1 : -1));
}

export const SORTS = ["key", "title", "state", "priority", "owner", "updated"] as const;
export type Sort = (typeof SORTS)[number];

const naturally = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** Compares two tasks by a column of the list; the newest first where it is the same. */
export function comparedBy(sort: Sort, one: Task, other: Task): number {
  const by = {
    key: () => naturally.compare(one.key, other.key),
    title: () => naturally.compare(one.fields.title, other.fields.title),
    state: () => STATES.indexOf(one.fields.state) - STATES.indexOf(other.fields.state),
    priority: () => rank(one) - rank(other),
    owner: () => (one.fields.owner === "" ? 1 : 0) - (other.fields.owner === "" ? 1 : 0) || naturally.compare(one.fields.owner, other.fields.owner),
    updated: () => other.updated_ms - one.updated_ms,
  };
  return by[sort]() || (one.id < other.id ? 1 : -1);
}

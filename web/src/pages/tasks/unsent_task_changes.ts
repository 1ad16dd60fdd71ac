// Every change of a task goes through here: it is shown at once, stored in the browser until the server has it,
// sent again when the server is back, and set aside when another user has changed the same field meanwhile.
import { useSyncExternalStore } from "react";
import { Problem, type Schemas, asProblem, send } from "../../api/http_client";
import { isSame, mergeValues } from "./three_way_merge";
import { type Task, type TaskValues, valueOf, withValues } from "./task_values_filter_and_order";

type Common = { id: string; status: "waiting" | "conflict" | "refused"; problem: string };
export type UnsentChange = Common & { kind: "change"; task: string; key: string; title: string; revision: number; values: TaskValues; before: TaskValues; conflicts: string[]; theirs: Task | null };
export type UnsentTask = Common & { kind: "new"; body: Schemas["NewTask"]; later: TaskValues; atMs: number };
export type Unsent = UnsentChange | UnsentTask;

const RETRY_MS = [1000, 2000, 4000, 8000, 15_000];
const ANSWER_TIMEOUT_MS = 20_000; // on a connection that died without a word
const MAX_MERGES = 5; // of one change, if others change the task again and again
const STARTING = /^(0|409|5\d\d|429)$/;

let key = "";
let list: readonly Unsent[] = [];
let isSending = false;
let attempts = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
let stored: (task: Task) => void = () => {};
const watchers = new Set<() => void>();
const newest = new Map<string, Task>(); // what the server answered last: a list that was asked before is older
const own = new Map<string, number>(); // the revision that a change of this page has made of another one, by task and revision

export const useUnsent = () => useSyncExternalStore((notify) => {
  watchers.add(notify);
  return () => watchers.delete(notify);
}, () => list);

function read(): Unsent[] {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "[]") as Unsent[];
  } catch {
    return []; // nothing that this build has written
  }
}

/** Other tabs of this browser share the list, so it is read again before each change. */
function write(change: (before: Unsent[]) => Unsent[]): void {
  list = change(read());
  if (list.length) localStorage.setItem(key, JSON.stringify(list));
  else localStorage.removeItem(key);
  for (const each of watchers) each();
}

const replace = (id: string, part: Partial<UnsentChange>) => write((before) => before.map((each) => (each.id === id ? { ...each, ...part } as Unsent : each)));
const remove = (id: string) => write((before) => before.filter((each) => each.id !== id));

/** Begin to send the waiting changes; `onStored` gets each task that the server has stored. */
export function connectUnsent(user: string, onStored: (task: Task) => void): () => void {
  key = `hutch.unsent-tasks.${user}`;
  stored = (task) => { newest.set(task.id, task); onStored(task); };
  write((before) => before);
  const fromOtherTab = (event: StorageEvent) => {
    if (event.key !== key) return;
    list = read();
    for (const each of watchers) each();
  };
  window.addEventListener("storage", fromOtherTab);
  window.addEventListener("online", sendUnsent);
  sendUnsent();
  return () => {
    window.removeEventListener("storage", fromOtherTab);
    window.removeEventListener("online", sendUnsent);
    clearTimeout(timer);
  };
}

const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** The revision after the changes of this page that a shown task includes already, although it was not drawn again since. */
function revisionOf(shown: Task): number {
  let revision = shown.revision;
  for (let next = own.get(`${shown.id} ${revision}`); next !== undefined; next = own.get(`${shown.id} ${revision}`)) revision = next;
  return revision;
}

/** Change a task from the state that the page shows. */
export function changeTask(shown: Task, values: TaskValues): void {
  const fields = Object.keys(values).filter((field) => !isSame(valueOf(shown, field), values[field as keyof TaskValues]));
  if (fields.length === 0) return;
  const desired = Object.fromEntries(fields.map((field) => [field, values[field as keyof TaskValues]])) as TaskValues;
  const before = Object.fromEntries(fields.map((field) => [field, valueOf(shown, field)])) as TaskValues;
  const base = { id: newId(), status: "waiting", problem: "", conflicts: [], theirs: null } as const;
  if (shown.id.startsWith(NEW)) { // not sent yet: the change becomes a part of the new task
    write((all) => all.map((each) => (each.kind === "new" && NEW + each.id === shown.id ? { ...each, status: "waiting", later: { ...each.later, ...desired } } : each)));
  } else {
    write((all) => [...all, { ...base, kind: "change", task: shown.id, key: shown.key, title: shown.fields.title, revision: revisionOf(shown), values: desired, before, conflicts: [] }]);
  }
  sendUnsent();
}

export function addTask(body: Schemas["NewTask"]): void {
  write((all) => [...all, { id: newId(), kind: "new", status: "waiting", problem: "", body, later: {}, atMs: Date.now() }]);
  sendUnsent();
}

export const discardUnsent = remove;

/** Store these values over the server's; `theirs` was shown to the user. */
export function resolveConflict(change: UnsentChange, values: TaskValues): void {
  const theirs = change.theirs;
  if (!theirs || Object.keys(values).length === 0) return remove(change.id);
  const before = Object.fromEntries(Object.keys(values).map((field) => [field, valueOf(theirs, field)])) as TaskValues;
  replace(change.id, { status: "waiting", values, before, revision: theirs.revision, conflicts: [], theirs: null });
  sendUnsent();
}

export function sendAgain(id: string): void {
  replace(id, { status: "waiting", problem: "" });
  sendUnsent();
}

/** Send the waiting changes, in their order. */
export function sendUnsent(): void {
  clearTimeout(timer);
  if (!isSending) void sendAll();
}

async function sendAll(): Promise<void> {
  isSending = true;
  try {
    for (let next = read().find((each) => each.status === "waiting"); next; next = read().find((each) => each.status === "waiting")) {
      if (!(await sendOne(next))) {
        timer = setTimeout(sendUnsent, RETRY_MS[Math.min(attempts++, RETRY_MS.length - 1)]);
        return;
      }
      attempts = 0;
    }
  } finally {
    isSending = false;
  }
}

/** The whole answer to a request. An answer that breaks off counts as none, so that the change is sent again. */
async function request<T>(path: string, options: { method?: string; body?: unknown; headers?: Record<string, string> } = {}): Promise<T> {
  const response = await send(path, { ...options, signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
  try {
    return (await response.json()) as T;
  } catch {
    throw new Problem(0, "offline", "The server cannot be reached.", "");
  }
}

/** False if the server cannot be reached now. */
async function sendOne(unsent: Unsent): Promise<boolean> {
  try {
    if (unsent.kind === "new") {
      created(unsent.id, await request<Task>("/tasks", { method: "POST", body: unsent.body, headers: { "Idempotency-Key": unsent.id } }));
    } else {
      await sendChange(unsent);
    }
    return true;
  } catch (error) {
    const problem = asProblem(error);
    const isTransient = STARTING.test(String(problem.status)) && problem.code !== "bug" && !(unsent.kind === "new" && problem.status === 409);
    if (isTransient) return false;
    if (problem.status === 401) return false; // the page leads to the login, and comes back
    replace(unsent.id, { status: "refused", problem: problem.message });
    return true;
  }
}

/** A new task has its id now; later changes of it follow. The body was sent unchanged: its idempotency key allows no other. */
function created(id: string, task: Task): void {
  const unsent = read().find((each) => each.id === id);
  stored(task);
  remove(id);
  if (unsent?.kind === "new") changeTask(task, unsent.later);
}

/** True for a later change of the same page: it knows of the one that has raised the revision. */
const isNext = (each: Unsent, task: string, revision: number) => each.kind === "change" && each.status === "waiting" && each.task === task && each.revision === revision;

async function sendChange(unsent: UnsentChange): Promise<void> {
  let { values, revision } = unsent;
  for (let round = 0; ; round++) {
    try {
      const task = await request<Task>(`/tasks/${unsent.task}`, { method: "PATCH", body: { ...values, revision } });
      if (task.revision !== revision) own.set(`${task.id} ${revision}`, task.revision);
      stored(task);
      return write((all) => all.filter((each) => each.id !== unsent.id).map((each) => (isNext(each, task.id, revision) ? { ...each, revision: task.revision } : each)));
    } catch (error) {
      if (asProblem(error).status !== 409 || round >= MAX_MERGES) throw error; // a later attempt begins again
      const theirs = await request<Task>(`/tasks/${unsent.task}`);
      const merge = mergeValues(unsent.before, unsent.values, theirs);
      if (merge.conflicts.length > 0) {
        stored(theirs);
        return replace(unsent.id, { status: "conflict", conflicts: merge.conflicts, theirs, values: merge.values });
      }
      if (Object.keys(merge.values).length === 0) {
        stored(theirs);
        return remove(unsent.id);
      }
      ({ values } = merge);
      revision = theirs.revision;
    }
  }
}

export const NEW = "new:"; // begins the id of a task that the server does not have yet

/** The tasks with the user's unsent changes. */
export function withUnsent(tasks: readonly Task[], unsent: readonly Unsent[]): Task[] {
  const known = tasks.map((task) => {
    const newer = newest.get(task.id);
    return newer && newer.revision > task.revision ? newer : task;
  });
  const added = unsent.filter((each) => each.kind === "new").map((each) => newTask(each));
  const changed = known.map((task) => unsent.reduce((now, each) => (each.kind === "change" && each.status === "waiting" && each.task === now.id ? withValues(now, each.values) : now), task));
  return [...added, ...changed];
}

function newTask({ id, body, later, atMs }: UnsentTask): Task {
  const { repository, title, description, state, owner, priority, estimate, milestone, labels, depends_on, criteria } = body;
  return withValues({
    id: NEW + id, key: "…", repository, address: "", description, revision: 0, archived: false, links: [], created_by: "", created_ms: atMs, updated_ms: atMs,
    fields: { title, state, owner, priority, estimate, milestone, labels: labels ?? [], depends_on: depends_on ?? [], criteria: (criteria ?? []).map((each) => ({ text: each.text, done: each.done })) },
  }, later);
}

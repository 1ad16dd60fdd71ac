// The requests of the task pages to the server, and the tasks shown meanwhile.
import { type QueryClient, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { type Schemas, get } from "../../api/http_client";
import { useUsers } from "../../api/queries";
import { connectUnsent, useUnsent, withUnsent } from "./unsent_task_changes";
import type { Task, TaskEvent } from "./task_values_filter_and_order";

const PAGE = 200;
const MAX_TASKS = 2000;
const LIVE_MS = 2000; // changes by others appear within this time
const MANY = 400;
const MANY_MS = 10_000; // a long list is asked for less often

export type TaskList = { tasks: Task[]; isTruncated: boolean };

async function listTasks(repository: string, signal: AbortSignal): Promise<TaskList> {
  const tasks: Task[] = [];
  let cursor = "";
  do {
    const page: Schemas["TaskPage"] = await get(`/tasks?limit=${PAGE}&cursor=${cursor}${repository ? `&repository=${encodeURIComponent(repository)}` : ""}`, signal);
    tasks.push(...page.items);
    cursor = page.next ?? "";
  } while (cursor && tasks.length < MAX_TASKS);
  return { tasks, isTruncated: cursor !== "" };
}

/** Tasks of one repository, or of all, with the user's changes that the server does not have yet. */
export function useTasks(repository: string) {
  const unsent = useUnsent();
  const query = useQuery({
    queryKey: ["tasks", "list", repository],
    queryFn: ({ signal }) => listTasks(repository, signal),
    refetchInterval: (last) => ((last.state.data?.tasks.length ?? 0) > MANY ? MANY_MS : LIVE_MS),
    placeholderData: (previous) => previous,
  });
  const tasks = useMemo(() => withUnsent(query.data?.tasks ?? [], unsent).filter((task) => !task.archived), [query.data, unsent]);
  return { query, tasks, isTruncated: query.data?.isTruncated ?? false };
}

export function useTask(id: string) {
  const unsent = useUnsent();
  const query = useQuery({ queryKey: ["tasks", "one", id], queryFn: () => get<Task>(`/tasks/${id}`), refetchInterval: LIVE_MS });
  const task = useMemo(() => (query.data ? withUnsent([query.data], unsent.filter((each) => each.kind === "change"))[0] : undefined), [query.data, unsent]);
  return { query, task };
}

const MAX_EVENTS = 1000;

async function listHistory(id: string): Promise<TaskEvent[]> {
  const events: TaskEvent[] = [];
  let cursor = "";
  do {
    const page: Schemas["TaskEventPage"] = await get(`/tasks/${id}/history?limit=${PAGE}&cursor=${cursor}`);
    events.push(...page.items);
    cursor = page.next ?? "";
  } while (cursor && events.length < MAX_EVENTS);
  return events;
}

export const useTaskHistory = (id: string, revision: number) =>
  useQuery({ queryKey: ["tasks", "history", id, revision], queryFn: () => listHistory(id), refetchInterval: LIVE_MS * 2, placeholderData: (previous) => previous });

/** Unsent changes are sent while a page of tasks is open, and shown in all of them. */
export function useSending(user: string): void {
  const queries = useQueryClient();
  useEffect(() => connectUnsent(user, (task) => show(queries, task)), [queries, user]);
}

function show(queries: QueryClient, task: Task): void {
  queries.setQueryData(["tasks", "one", task.id], task);
  for (const [key, list] of queries.getQueriesData<TaskList>({ queryKey: ["tasks", "list"] })) {
    if (!list) continue;
    const others = list.tasks.filter((each) => each.id !== task.id);
    const isThere = others.length < list.tasks.length;
    const tasks = task.archived ? others : isThere ? list.tasks.map((each) => (each.id === task.id ? task : each)) : [task, ...list.tasks];
    queries.setQueryData(key, { ...list, tasks });
  }
  void queries.invalidateQueries({ queryKey: ["tasks", "history", task.id] });
}

/** The names of users by their id, as far as one may see them. */
export function useNames(user: Schemas["User"]): ReadonlyMap<string, string> {
  const users = useUsers(user.role === "owner");
  return useMemo(() => new Map([...(users.data ?? []).map((each): [string, string] => [each.id, each.name]), [user.id, user.name], ["hutch", "Hutch"]]), [users.data, user]);
}

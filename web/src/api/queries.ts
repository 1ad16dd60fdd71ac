// The requests of pages to the server, each with its key in the cache.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useIsListLive } from "./session_list_stream";
import { callSummary } from "../display_format";
import { type Change, type Schemas, type Session, get } from "./http_client";

const POLL_MS = 5000;

/** The stream renews the list; without it the server is asked every few seconds. */
export function useSessions(q: string) {
  const isLive = useIsListLive();
  return useInfiniteQuery({
    queryKey: ["sessions", q],
    queryFn: ({ pageParam, signal }) => get<Schemas["SessionPage"]>(`/sessions?interviews=false&limit=100&cursor=${pageParam}${q ? `&q=${encodeURIComponent(q)}` : ""}`, signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: isLive ? POLL_MS * 12 : POLL_MS,
    placeholderData: (previous) => previous,
  });
}

/** Changes in one state, or all; the newest first. */
export const useAllChanges = (state: string) =>
  useInfiniteQuery({
    queryKey: ["changes", "all", state],
    queryFn: ({ pageParam, signal }) => get<Schemas["ChangePage"]>(`/changes?limit=100&cursor=${pageParam}${state ? `&state=${state}` : ""}`, signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: POLL_MS * 6,
    placeholderData: (previous) => previous,
  });

/** The changes that a session has proposed, each with its state. */
export const useChangesOf = (session: string, enabled: boolean) =>
  useQuery({ queryKey: ["changes", "session", session], enabled, queryFn: async () => (await get<Schemas["ChangePage"]>(`/changes?session=${session}&limit=20`)).items as Change[], refetchInterval: POLL_MS * 6 });

export const useChanges = () =>
  useQuery({ queryKey: ["changes", "open"], queryFn: async () => (await get<Schemas["ChangePage"]>("/changes?state=open&limit=50")).items as Change[], refetchInterval: POLL_MS * 2 });

export function useCosts() {
  return useQuery({
    queryKey: ["usage", "session"],
    queryFn: async () => {
      const page = await get<Schemas["UsagePage"]>("/usage?group=session&limit=200");
      return new Map(page.items.map((each) => [each.key, each]));
    },
    refetchInterval: POLL_MS * 2,
  });
}

export type Waits = { kind: "question" | "approval"; text: string };

type WaitingEvent = { type: string; call_id: string; tool?: string; summary?: string; text?: string };
const REQUESTS = ["approval.requested", "question.asked"];
const MAX_SEARCHED = 40; // helpers that work side by side may ask much at once

/** The reason why a session waits, in its own words: the oldest question that nobody has answered. */
export async function waitsFor(id: string): Promise<Waits> {
  const kinds = [...REQUESTS, "approval.answered", "question.answered", "run.started"].map((kind) => `kind=${kind}`).join("&");
  const found = await get<Schemas["EventSearchPage"]>(`/sessions/${id}/events/search?${kinds}&order=newest&limit=${MAX_SEARCHED}`);
  const open = new Map<string, WaitingEvent>();
  for (const event of found.items.toReversed().map((each) => each.event as WaitingEvent)) {
    if (event.type === "run.started") open.clear(); // what an earlier run asked, nobody will answer
    else if (REQUESTS.includes(event.type)) open.set(event.call_id, event);
    else open.delete(event.call_id);
  }
  const [event] = open.values();
  return event?.type === "question.asked" ? { kind: "question", text: event.text ?? "" } : { kind: "approval", text: callSummary(event?.tool ?? "", event?.summary ?? "") };
}

export const useWaitsFor = (id: string, enabled: boolean) => useQuery({ queryKey: ["waits-for", id], enabled, queryFn: () => waitsFor(id) });

/** The tests that a session's files have, and their commands. */
export const useTestSuites = (id: string, enabled: boolean) =>
  useQuery({ queryKey: ["test-suites", id], enabled, staleTime: 10_000, queryFn: async () => (await get<Schemas["TestSuites"]>(`/sessions/${id}/tests/suites`)).items });

export const useModels = () => useQuery({ queryKey: ["models"], queryFn: () => get<Schemas["Models"]>("/models"), staleTime: 60_000 });
export const usePersonas = () => useQuery({ queryKey: ["personas"], queryFn: () => get<Schemas["Personas"]>("/personas"), staleTime: 60_000 });
export const useSession = (id: string) => useQuery({ queryKey: ["session", id], queryFn: () => get<Session>(`/sessions/${id}`), refetchInterval: 15_000 });
export const useUsers = (enabled: boolean) =>
  useQuery({ queryKey: ["users"], queryFn: async () => (await get<Schemas["UserPage"]>("/users?limit=200")).items, staleTime: 60_000, enabled });
/** The access of the user to a session; requested periodically, since a share can be withdrawn. */
export const useAccess = (id: string) => useQuery({ queryKey: ["access", id], queryFn: () => get<Schemas["Access"]>(`/sessions/${id}/access`), refetchInterval: 60_000 });

// The newest events over all sessions, and new ones as they happen. Nothing is lost between the list and the stream.
import { useEffect, useReducer, useRef } from "react";
import { type Schemas, asProblem, get, send } from "../../api/http_client";

export type LiveEvent = Schemas["LiveEvent"];
type Page = Schemas["LiveEvents"];
export type Connection = "connecting" | "live" | "away" | "refused";

export const MAX_SHOWN = 1000;
const RETRY_MS = [500, 1000, 2000, 4000, 8000, 15_000];
const GATHER_MS = 100; // events that come together are one change of the page
const CLOSED_FOR_GOOD = new Set([400, 401, 403, 404, 422]);

type State = { shown: LiveEvent[]; waiting: LiveEvent[]; next: string | null; isLoaded: boolean; connection: Connection; error: unknown };
type Action =
  | { type: "page"; page: Page }
  | { type: "events"; events: LiveEvent[]; isPaused: boolean }
  | { type: "resume" }
  | { type: "connection"; connection: Connection; error?: unknown };

const START: State = { shown: [], waiting: [], next: null, isLoaded: false, connection: "connecting", error: null };

function merged(...lists: LiveEvent[][]): LiveEvent[] {
  const byPosition = new Map(lists.flat().map((each) => [each.position, each]));
  return [...byPosition.values()].sort((a, b) => b.position - a.position);
}

function reduce(state: State, action: Action): State {
  if (action.type === "connection") return { ...state, connection: action.connection, error: action.error ?? null };
  if (action.type === "resume") return { ...state, shown: merged(state.waiting, state.shown).slice(0, MAX_SHOWN), waiting: [] };
  if (action.type === "page") return { ...state, shown: merged(state.shown, action.page.items), next: action.page.next, isLoaded: true };
  if (action.isPaused) return { ...state, waiting: merged(state.waiting, action.events).slice(0, MAX_SHOWN) };
  return { ...state, shown: merged(action.events, state.shown).slice(0, Math.max(MAX_SHOWN, state.shown.length)) };
}

/** The events for a query. While `isPaused`, new ones wait. */
export function useLiveEvents(query: string, isPaused: boolean) {
  const [state, dispatch] = useReducer(reduce, START);
  const paused = useRef(isPaused);
  useEffect(() => {
    paused.current = isPaused;
    if (!isPaused) dispatch({ type: "resume" });
  }, [isPaused]);
  useEffect(() => {
    const stop = new AbortController();
    void follow(query, stop.signal, dispatch, paused);
    return () => stop.abort();
  }, [query]);
  const loadOlder = async () => {
    try {
      dispatch({ type: "page", page: await get<Page>(`/logs?limit=100&cursor=${state.next ?? ""}&${query}`) });
    } catch (error) {
      dispatch({ type: "connection", connection: state.connection, error });
    }
  };
  return { ...state, loadOlder };
}

/** The stream is opened first, then the list is read, so that no event falls between them. Later, a stream goes on where it broke off. */
async function follow(query: string, signal: AbortSignal, dispatch: (action: Action) => void, paused: { current: boolean }): Promise<void> {
  let last = 0;
  let isListed = false;
  let attempts = 0;
  let gathered: LiveEvent[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const take = (event: LiveEvent) => {
    last = Math.max(last, event.position);
    gathered.push(event);
    timer ??= setTimeout(() => {
      timer = undefined;
      if (!signal.aborted) dispatch({ type: "events", events: gathered, isPaused: paused.current });
      gathered = [];
    }, GATHER_MS);
  };
  while (!signal.aborted) {
    try {
      const stream = await send(`/logs/stream?${query}`, { signal, headers: { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": String(last) } : {}) } });
      if (!isListed || last === 0) {
        const page = await get<Page>(`/logs?limit=100&${query}`, signal);
        last = Math.max(last, page.items[0]?.position ?? 0);
        isListed = true;
        dispatch({ type: "page", page });
      }
      dispatch({ type: "connection", connection: "live" });
      attempts = 0;
      const isRefused = await readStream(stream, take);
      if (isRefused) return dispatch({ type: "connection", connection: "refused" });
    } catch (error) {
      if (signal.aborted) return;
      if (CLOSED_FOR_GOOD.has(asProblem(error).status)) return dispatch({ type: "connection", connection: "away", error });
    }
    if (signal.aborted) return;
    dispatch({ type: "connection", connection: "away" });
    await pause(RETRY_MS[Math.min(attempts++, RETRY_MS.length - 1)] ?? 0, signal);
  }
}

const pause = (ms: number, signal: AbortSignal) => new Promise<void>((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
});

/** Reads until the end of the stream. True if the server has withdrawn access. */
async function readStream(stream: Response, take: (event: LiveEvent) => void): Promise<boolean> {
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
    if (done) return false;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) {
      const fields = new Map(frame.split("\n").map((line): [string, string] => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]));
      if (fields.get("event") === "refused") return true;
      if (fields.get("event") === "message") take(JSON.parse(fields.get("data") ?? "") as LiveEvent);
    }
  }
}

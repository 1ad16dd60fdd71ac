// One stream over all sessions that the user may see: each change renews the lists and notifies listeners.
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { onRetry, serverIsDown, serverIsUp } from "./server_reachability_and_build";
import { watchSocket } from "./socket_watch";

const RETRY_MS = [500, 1000, 2000, 4000, 8000, 15_000];
const GATHER_MS = 50; // changes that come together are one request
const QUERY = "subscription { sessions { id state removed } }";

export type Changed = { id: string; state: string; removed: boolean };
const listeners = new Set<(changed: Changed) => void>();
const watchers = new Set<() => void>();
let isLive = false;

/** Call `listener` for each session that changes, while the page is open. */
export function onSession(listener: (changed: Changed) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useIsListLive = () => useSyncExternalStore((notify) => {
  watchers.add(notify);
  return () => watchers.delete(notify);
}, () => isLive);

function setLive(live: boolean): void {
  if (live === isLive) return;
  isLive = live;
  for (const each of watchers) each();
}

export function useSessionList(): void {
  const queries = useQueryClient();
  useEffect(() => follow(queries), [queries]);
}

function follow(queries: QueryClient): () => void {
  let socket: WebSocket | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let gathering: ReturnType<typeof setTimeout> | undefined;
  let attempts = 0;
  let closed = false;
  const renew = () => {
    gathering ??= setTimeout(() => {
      gathering = undefined;
      for (const key of ["sessions", "waits-for", "changes"]) void queries.invalidateQueries({ queryKey: [key] });
    }, GATHER_MS);
  };
  const connect = () => {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const opened = new WebSocket(`${scheme}://${location.host}/api/graphql`, "graphql-transport-ws");
    socket = opened;
    opened.onopen = () => opened.send(JSON.stringify({ type: "connection_init" }));
    opened.onmessage = (message) => {
      const frame = JSON.parse(String(message.data)) as { type: string; payload?: { data?: { sessions?: Changed } } };
      if (frame.type === "connection_ack") {
        opened.send(JSON.stringify({ id: "1", type: "subscribe", payload: { query: QUERY } }));
        attempts = 0;
        setLive(true);
        serverIsUp();
        renew(); // what changed meanwhile
      } else if (frame.type === "ping") {
        opened.send(JSON.stringify({ type: "pong" }));
      } else if (frame.type === "next" && frame.payload?.data?.sessions) {
        for (const each of listeners) each(frame.payload.data.sessions);
        renew();
      } else if (frame.type === "error" || frame.type === "complete") {
        opened.close();
      }
    };
    opened.onclose = () => {
      setLive(false);
      if (closed) return;
      serverIsDown();
      timer = setTimeout(connect, RETRY_MS[Math.min(attempts++, RETRY_MS.length - 1)]);
    };
    watchSocket(opened, () => opened.send('{"type":"ping"}'));
  };
  const wake = () => {
    if (socket?.readyState !== WebSocket.CLOSED) return;
    clearTimeout(timer);
    connect();
  };
  const wakeIfVisible = () => {
    if (!document.hidden) wake();
  };
  connect();
  onRetry(wake);
  window.addEventListener("online", wakeIfVisible);
  document.addEventListener("visibilitychange", wakeIfVisible);
  return () => {
    closed = true;
    clearTimeout(timer);
    clearTimeout(gathering);
    window.removeEventListener("online", wakeIfVisible);
    document.removeEventListener("visibilitychange", wakeIfVisible);
    setLive(false);
    socket?.close();
  };
}

// The candidate's page sends a heartbeat every few seconds, and reports events of the browser, such as a paste.
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { post, send } from "../../api/http_client";
import type { ClockState, Interview } from "./interview_api";

const OFFLINE_MS = 15_000; // then the server stops the clock, as of the last sign
const SEND_MS = 4000;
const MAX_BATCH = 500;
const MAX_STORED = 2000;

/** `offlineSinceMs` is 0 until the server has certainly stopped the clock. It is then stopped since this time, or longer. */
export type Presence = { isLost: boolean; offlineSinceMs: number };

/** Tell the server that the candidate is here. The clock that it answers is shown at once. */
export function useHeartbeat(id: string, isActive: boolean): Presence {
  const queries = useQueryClient();
  const [state, setState] = useState<Presence>({ isLost: false, offlineSinceMs: 0 });
  useEffect(() => {
    if (!isActive) return;
    let isClosed = false;
    let failedMs = 0; // since when no sign has reached the server
    let isBusy = false;
    const beat = async () => {
      if (isBusy) return;
      isBusy = true;
      const sentMs = Date.now();
      try {
        const clock = await post<ClockState>(`/interviews/${id}/heartbeat`);
        failedMs = 0;
        queries.setQueryData<Interview>(["interview", id], (before) => (before ? { ...before, clock } : before));
        if (!isClosed) setState({ isLost: false, offlineSinceMs: 0 });
      } catch {
        failedMs ||= sentMs;
        if (!isClosed) setState({ isLost: true, offlineSinceMs: Date.now() - failedMs > OFFLINE_MS ? failedMs : 0 });
      } finally {
        isBusy = false;
      }
    };
    const worker = new Worker(new URL("./heartbeat_worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = () => void beat();
    const wake = () => void beat();
    window.addEventListener("online", wake);
    window.addEventListener("offline", wake);
    document.addEventListener("visibilitychange", wake);
    void beat();
    return () => {
      isClosed = true;
      worker.terminate();
      window.removeEventListener("online", wake);
      window.removeEventListener("offline", wake);
      document.removeEventListener("visibilitychange", wake);
    };
  }, [id, isActive, queries]);
  return state;
}

type Reported = { type: string; timestamp: string; data: Record<string, unknown> };

/** The part of the room in which something happened. */
function placeOf(target: EventTarget | null): string {
  if (!(target instanceof Element)) return "";
  if (target.closest(".cm-editor")) return "editor";
  if (target.closest(".xterm")) return "terminal";
  if (target.closest("[data-composer]")) return "assistant";
  return target.closest("section[aria-label]")?.getAttribute("aria-label") ?? "";
}

/** Report pastes, copies, and leaving the page. Reports wait in the browser while there is no connection. */
export function useClientReports(id: string, isActive: boolean): void {
  const queue = useRef<Reported[]>([]);
  useEffect(() => {
    if (!isActive) return;
    const key = `hutch.reports.${id}`;
    queue.current = read(key);
    let isSending = false;
    const store = () => sessionStorage.setItem(key, JSON.stringify(queue.current.slice(-MAX_STORED)));
    const add = (type: string, data: Record<string, unknown> = {}) => {
      queue.current.push({ type, timestamp: new Date().toISOString(), data });
      store();
    };
    const flush = async (keepalive = false) => {
      const batch = queue.current.slice(0, MAX_BATCH);
      if (batch.length === 0 || isSending) return;
      isSending = true;
      try {
        await send(`/interviews/${id}/events/batch`, { method: "POST", body: { events: batch }, keepalive });
        queue.current = queue.current.slice(batch.length);
        store();
      } catch {
        store(); // they are sent with the next ones
      } finally {
        isSending = false;
      }
    };
    const clipboard = (event: ClipboardEvent) => {
      const copied = event.type === "paste" ? event.clipboardData?.getData("text/plain") : document.getSelection()?.toString();
      add(event.type === "paste" ? "paste" : "copy", { chars: copied?.length ?? 0, lines: copied ? copied.split("\n").length : 0, where: placeOf(event.target) });
    };
    const focus = () => add("focus");
    const blur = () => add("blur");
    const visibility = () => add("visibility", { state: document.visibilityState });
    const online = () => { add("online"); void flush(); };
    const offline = () => add("offline");
    const leave = () => void flush(true);
    document.addEventListener("paste", clipboard, true);
    document.addEventListener("copy", clipboard, true);
    window.addEventListener("focus", focus);
    window.addEventListener("blur", blur);
    document.addEventListener("visibilitychange", visibility);
    window.addEventListener("online", online);
    window.addEventListener("offline", offline);
    window.addEventListener("pagehide", leave);
    const timer = setInterval(() => void flush(), SEND_MS);
    return () => {
      clearInterval(timer);
      document.removeEventListener("paste", clipboard, true);
      document.removeEventListener("copy", clipboard, true);
      window.removeEventListener("focus", focus);
      window.removeEventListener("blur", blur);
      document.removeEventListener("visibilitychange", visibility);
      window.removeEventListener("online", online);
      window.removeEventListener("offline", offline);
      window.removeEventListener("pagehide", leave);
      void flush(true);
    };
  }, [id, isActive]);
}

function read(key: string): Reported[] {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? "[]") as Reported[];
  } catch {
    return [];
  }
}

// Tells a person that a session needs them: a notification of the browser, if they asked for it, and a mark on the icon.
import { useEffect, useSyncExternalStore } from "react";
import { useLocation } from "wouter";
import { type Session, get } from "../api/http_client";
import { waitsFor } from "../api/queries";
import { onSession } from "../api/session_list_stream";
import { titleOf } from "../display_format";
import icon from "../icon.svg";
import markedIcon from "../icon_marked.svg";
import { showHidden } from "./safe_text";
import { strings } from "../strings";

const KEY = "hutch.notify";
const watchers = new Set<() => void>();

export type Notifying = "missing" | "off" | "on" | "refused";

/** Browsers offer notifications on https and on this machine only. */
export function notifying(): Notifying {
  if (!("Notification" in window) || !window.isSecureContext) return "missing";
  if (Notification.permission === "denied") return "refused";
  return Notification.permission === "granted" && localStorage.getItem(KEY) === "on" ? "on" : "off";
}

export const useNotifying = () => useSyncExternalStore((notify) => {
  watchers.add(notify);
  return () => watchers.delete(notify);
}, notifying);

export async function setNotifying(on: boolean): Promise<void> {
  if (on && (await Notification.requestPermission()) === "granted") localStorage.setItem(KEY, "on");
  if (!on) localStorage.removeItem(KEY);
  for (const each of watchers) each();
}

export function useNotifications(): void {
  const [path, go] = useLocation();
  useEffect(() => {
    const states = new Map<string, string>();
    return onSession(({ id, state, removed }) => {
      const before = states.get(id);
      states.set(id, removed ? "ended" : state);
      showMark([...states.values()].some((each) => each === "waiting"));
      if (state === "waiting" && before !== "waiting" && !removed && !(path.startsWith(`/s/${id}`) && document.visibilityState === "visible")) void notify(id, go);
    });
  }, [path, go]);
}

async function notify(id: string, go: (path: string) => void): Promise<void> {
  if (notifying() !== "on") return;
  const [session, asks] = await Promise.all([get<Session>(`/sessions/${id}`), waitsFor(id)]);
  if (session.state !== "waiting") return; // answered meanwhile
  if (session.parent && (await get<Session>(`/sessions/${session.parent}`)).state === "waiting") return; // that one is told
  const shown = new Notification(showHidden(strings.notify.title(titleOf(session))), { body: showHidden(strings.home.waits(asks.kind, asks.text)).slice(0, 200), tag: id, icon });
  shown.onclick = () => {
    window.focus();
    go(`/s/${id}`);
    shown.close();
  };
}

function showMark(marked: boolean): void {
  const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  if (link) link.href = marked ? markedIcon : icon;
}

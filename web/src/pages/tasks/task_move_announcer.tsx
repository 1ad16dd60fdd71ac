// Announces moves of cards to screen readers. The newest sentence wins.
import { useSyncExternalStore } from "react";
import { showHidden } from "../../shared/safe_text";

let sentence = "";
const watchers = new Set<() => void>();

export function announce(text: string): void {
  sentence = sentence === text ? `${text} ` : text; // the same sentence again is spoken again
  for (const each of watchers) each();
}

export function TaskAnnouncer() {
  const announcement = useSyncExternalStore((notify) => {
    watchers.add(notify);
    return () => watchers.delete(notify);
  }, () => sentence);
  return <div className="sr-only" aria-live="assertive">{showHidden(announcement)}</div>;
}

// The present time for "12 s ago", renewed every few seconds for every component that shows it.
import { useEffect, useState, useSyncExternalStore } from "react";

let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void) {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, 5000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The present time while `isActive`, each second: for texts that must appear on time, such as a lost connection. */
export function useSeconds(isActive: boolean): number {
  const [time, setTime] = useState(() => Date.now());
  useEffect(() => {
    if (!isActive) return;
    const clock = setInterval(() => setTime(Date.now()), 1000);
    return () => clearInterval(clock);
  }, [isActive]);
  return time;
}

export const useNow = () => useSyncExternalStore(subscribe, () => now);

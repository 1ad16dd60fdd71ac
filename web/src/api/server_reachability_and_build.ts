// Checks that the server answers, and detects that it serves another build of this app than the open one.
import { useSyncExternalStore } from "react";

export type ServerConnection = { downSinceMs: number; lastReceivedMs: number; isUpdated: boolean }; // 0: it is not down
let state: ServerConnection = { downSinceMs: 0, lastReceivedMs: Date.now(), isUpdated: false };
const watchers = new Set<() => void>();
let retry = () => {};

function change(part: Partial<ServerConnection>): void {
  state = { ...state, ...part };
  for (const each of watchers) each();
}

export const useServerConnection = () => useSyncExternalStore((notify) => {
  watchers.add(notify);
  return () => watchers.delete(notify);
}, () => state);

export const retryNow = () => retry();
export const onRetry = (again: () => void) => { retry = again; };

export function serverIsDown(): void {
  if (!state.downSinceMs) change({ downSinceMs: Date.now(), lastReceivedMs: Date.now() }); // it was there until now
}

export function serverIsUp(): void {
  const wasDown = state.downSinceMs > 0;
  change({ downSinceMs: 0, lastReceivedMs: Date.now() });
  if (wasDown) void checkForUpdate();
}

const SCRIPT = /<script[^>]* src="(\/assets\/[^"]+)"/;

/** A server that was restarted may have another build. Its page names the script of that build. */
async function checkForUpdate(): Promise<void> {
  try {
    const page = await (await fetch("/", { headers: { Accept: "text/html" }, cache: "no-store" })).text();
    const mine = document.querySelector("script[type=module][src]")?.getAttribute("src");
    const served = SCRIPT.exec(page)?.[1];
    if (mine && served && served !== mine) change({ isUpdated: true });
  } catch {
    // down again: the next connection looks again
    serverIsDown();
  }
}

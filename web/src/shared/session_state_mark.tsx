// The state of a session: a shape, a colour and a word.
import type { Session } from "../api/http_client";
import { strings } from "../strings";

export type State = Session["state"];
const TONES: Record<State, string> = {
  waiting: "text-warn", running: "text-ok", starting: "text-info", queued: "text-info", idle: "text-t3", paused: "text-warn", parked: "text-t3", ended: "text-t3",
};

/** `isPast`: the connection has been lost for a while, so this is the last known state. */
export function StateMark({ state, word = true, isPast = false }: { state: State; word?: boolean; isPast?: boolean }) {
  if (isPast) return <span className="inline-flex items-center gap-1.5 text-12 whitespace-nowrap text-t3">{strings.connection.was(strings.state[state] ?? state)}</span>;
  return (
    <span className={`inline-flex items-center gap-1.5 text-12 whitespace-nowrap ${TONES[state]}`}>
      <Dot state={state} />
      {word ? strings.state[state] : <span className="sr-only">{strings.state[state]}</span>}
    </span>
  );
}

function Dot({ state }: { state: State }) {
  const moving = state === "running" || state === "starting";
  return (
    <svg width="8" height="8" viewBox="0 0 8 8" aria-hidden="true" className={moving ? "dot-running" : ""}>
      {state === "waiting" ? <path d="M4 0 8 4 4 8 0 4z" fill="currentColor" />
        : state === "ended" ? <rect x="1" y="1" width="6" height="6" fill="currentColor" />
        : state === "paused" ? <path d="M1 0h2v8H1zM5 0h2v8H5z" fill="currentColor" />
        : state === "idle" || state === "parked" || state === "queued" ? <circle cx="4" cy="4" r="3" fill="none" stroke="currentColor" strokeWidth="1.5" />
        : <circle cx="4" cy="4" r="4" fill="currentColor" />}
    </svg>
  );
}

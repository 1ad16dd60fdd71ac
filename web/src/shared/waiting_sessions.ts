// Sessions that wait for a person. A helper's question is also asked by its parent, and answered there.
import type { Session } from "../api/http_client";

export function waitingSessions<Some extends Pick<Session, "id" | "state" | "parent">>(sessions: readonly Some[]): Some[] {
  const waiting = sessions.filter((each) => each.state === "waiting");
  const ids = new Set(waiting.map((each) => each.id));
  return waiting.filter((each) => !each.parent || !ids.has(each.parent));
}

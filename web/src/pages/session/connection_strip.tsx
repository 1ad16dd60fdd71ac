// The state of the connection. It shows nothing while the connection works.
import { useSyncExternalStore } from "react";
import { ago } from "../../display_format";
import { Button } from "../../shared/form_controls";
import { useSeconds } from "../../shared/current_time";
import { strings } from "../../strings";
import { useSessionContext } from "./session_context";

export const QUIET_MS = 2000;
const LONG_MS = 60_000;

export function ConnectionStrip() {
  const { stream, documents } = useSessionContext();
  useSyncExternalStore(documents.subscribe, () => documents.version);
  useSyncExternalStore(stream.subscribe, () => stream.version);
  const { status, lastReceivedMs, downSinceMs, waiting } = stream.connection;
  const now = useSeconds(status === "down" || status === "restarting");
  if (status !== "down" && status !== "restarting" && status !== "refused") return null;
  if (status === "down" && now - downSinceMs < QUIET_MS) return null;
  const long = status !== "refused" && now - downSinceMs > LONG_MS;
  return (
    <div role="status" className={`flex h-7 shrink-0 items-center gap-3 border-b px-3 text-12 ${long || status === "refused" ? "bg-warn-tint text-warn" : "bg-hover text-t2"}`}>
      <span className="min-w-0 truncate">{status === "refused" ? strings.connection.refused : status === "restarting" ? strings.connection.restarting : strings.connection.down(ago(lastReceivedMs, now), waiting, documents.waiting)}{long && ` ${location.host}`}</span>
      {status !== "refused" && <Button kind="quiet" small onClick={() => { stream.retryNow(); documents.retryNow(); }}>{strings.connection.tryNow}</Button>}
    </div>
  );
}

// The state of the server, at the top of every page. A session page shows the state of its own connection.
import { useLocation } from "wouter";
import { retryNow, useServerConnection } from "../api/server_reachability_and_build";
import { ago } from "../display_format";
import { strings } from "../strings";
import { useSeconds } from "./current_time";
import { Button } from "./form_controls";

const QUIET_MS = 2000;
const LONG_MS = 60_000;

export function ServerStrip() {
  const { downSinceMs, lastReceivedMs, isUpdated } = useServerConnection();
  const now = useSeconds(downSinceMs > 0);
  const [path] = useLocation();
  const down = downSinceMs ? now - downSinceMs : 0;
  const isDown = down >= QUIET_MS && !/^\/(s\/[^/]+|i\/[^/]+(\/assess)?)$/.test(path);
  return (
    <div role="status" aria-label={strings.connection.label} className="shrink-0">
      {isDown && <Line warns={down > LONG_MS} text={`${strings.connection.down(ago(lastReceivedMs, now), 0, 0)}${down > LONG_MS ? ` ${location.host}` : ""}`} label={strings.connection.tryNow} act={retryNow} />}
      {isUpdated && <Line warns text={strings.connection.updated} label={strings.connection.reload} act={() => location.reload()} />}
    </div>
  );
}

function Line({ text, warns, label, act }: { text: string; warns: boolean; label: string; act: () => void }) {
  return (
    <div className={`flex h-7 items-center gap-3 border-b px-3 text-12 ${warns ? "bg-warn-tint text-warn" : "bg-hover text-t2"}`}>
      <span className="min-w-0 truncate">{text}</span>
      <Button kind="quiet" small onClick={act}>{label}</Button>
    </div>
  );
}

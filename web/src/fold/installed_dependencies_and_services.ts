// Installed dependencies, and services that tests need. A service has one row, from its start until it is ready or failed.
import { bytes, seconds } from "../display_format";
import type { FoldState } from "./shared_fold_state";
import type { AnyEntry, Event } from "./view_types";

type DependencyEvent = Extract<Event, { type: `environment.${string}` | `service.${string}` }>;

export function foldDependencies(state: FoldState, entry: AnyEntry, event: DependencyEvent): void {
  switch (event.type) {
    case "environment.build_started":
      return state.note(entry, "info", "installing", event.inputs?.join(", "), event.steps?.join("\n"));
    case "environment.built": {
      const left = [...(event.failed ?? []), ...(event.dropped ?? [])].join("\n");
      return state.note(entry, event.failed?.length ? "warn" : "ok", "installed", `${bytes(event.bytes ?? 0)}, ${seconds(event.duration_s ?? 0)}`, left);
    }
    case "environment.failed":
      return state.note(entry, "bad", "notInstalled", event.reason, [...(event.denied ?? []), event.output ?? ""].filter(Boolean).join("\n"));
    case "environment.attached":
      return state.note(entry, "info", "attached", event.roots?.join(", "));
    case "service.started":
      return state.note(entry, "info", "service", event.service, event.command);
    case "service.answered":
    case "service.failed": {
      const isReady = event.type === "service.answered";
      const begun = state.view.rows.findLast((row) => row.kind === "note" && row.what === "service" && row.text === event.service);
      const outcome = isReady ? { tone: "ok" as const, what: "serviceReady" } : { tone: "bad" as const, what: "serviceFailed", detail: [event.reason, event.output ?? ""].filter(Boolean).join("\n") };
      if (begun?.kind === "note") return state.put({ ...begun, ...outcome });
      return state.note(entry, outcome.tone, outcome.what, event.service, outcome.detail);
    }
    case "service.stopped":
      return; // its jail was closed; the log has the end of its output
  }
}

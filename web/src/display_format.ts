// Figures and times as people read them.
import type { Session } from "./api/http_client";
import type { Command } from "./fold/view_types";
import { strings } from "./strings";

export function ago(atMs: number, nowMs: number): string {
  const s = Math.max(0, Math.round((nowMs - atMs) / 1000));
  if (s < 5) return strings.time.now;
  if (s < 60) return strings.time.seconds(s);
  if (s < 3600) return strings.time.minutes(Math.floor(s / 60));
  if (s < 86_400) return strings.time.hours(Math.floor(s / 3600));
  return strings.time.days(Math.floor(s / 86_400));
}

export function seconds(s: number): string {
  if (s < 0.1) return `${Math.max(1, Math.round(s * 1000))} ms`;
  if (s < 60) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${Math.round(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
}

export function tokens(count: number): string {
  if (count < 1000) return String(count);
  if (count < 1_000_000) return `${(count / 1000).toFixed(count < 10_000 ? 1 : 0)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

export const dollars = (usd: number) => `$${usd.toFixed(usd > 0 && usd < 0.1 ? 3 : 2)}`;

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${(count / 1024).toFixed(1)} KB`;
  if (count < 1024 ** 3) return `${(count / 1024 / 1024).toFixed(1)} MB`;
  return `${(count / 1024 ** 3).toFixed(1)} GB`;
}

export const clock = (atMs: number) => new Date(atMs).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

/** The end of a command: its exit code, the signal that ended it, or that its time was over. */
export function commandEnd({ exitCode, signal, timedOut }: Pick<Command, "exitCode" | "signal" | "timedOut">): string {
  return timedOut ? strings.session.timedOut : exitCode !== null ? strings.session.exit(exitCode) : signal !== null ? strings.session.signal(signal) : strings.session.stopped;
}

/** A call in a few words. The summary of a call without a command is its arguments as JSON: their path says enough. */
export function callSummary(tool: string, summary: string): string {
  if (!summary.startsWith("{")) return summary;
  if (summary === "{}") return tool;
  const path = /"path":\s*("(?:[^"\\]|\\.)*")/.exec(summary)?.[1];
  return path ? `${tool} ${String(JSON.parse(path))}` : `${tool} ${summary}`;
}

/** The last part of a repository's address. */
export const repositoryName = (address: string) => address.replace(/\/+$/, "").replace(/\.git$/, "").split(/[/:]/).pop() ?? address;

export const titleOf = (session: Session) => session.purpose || session.delivery.title || (session.repository ? repositoryName(session.repository) : strings.home.untitled);

/** A script is a file of the server; its path says nothing to a reader. */
export const modelName = (name: string) => (name.startsWith("scripted:") ? repositoryName(name).replace(/\.\w+$/, "") : name.replace(/^[\w-]+:/, ""));

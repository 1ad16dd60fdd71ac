// Past contents of files by event, cached while the page is open, and the author of each line.
import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { send } from "../../api/http_client";
import { linesOf, stepsOf } from "../../shared/line_diff";
import type { FileVersion } from "./playback_events";

const MAX_VERSIONS = 40; // of one file, whose authors are worked out; older lines have none
const MAX_CHARS = 400_000;

export type At = { seq: number; version: "before" | "after" };

/** The content of a file at an event; null if it does not exist then. */
export function contentAt(versions: readonly FileVersion[], seq: number): At | null {
  const last = versions.findLast((each) => each.seq <= seq);
  if (last) return last.kind === "deleted" ? null : { seq: last.seq, version: "after" };
  const first = versions[0];
  return first && first.kind !== "created" ? { seq: first.seq, version: "before" } : null;
}

export async function load(session: string, at: At): Promise<string | null> {
  const answer = await send(`/sessions/${session}/events/${at.seq}/content?version=${at.version}`);
  const content = new Uint8Array(await answer.arrayBuffer());
  return content.subarray(0, 8000).includes(0) ? null : new TextDecoder().decode(content);
}

const query = (session: string, at: At | null) => ({
  queryKey: ["content", session, at?.seq, at?.version],
  queryFn: () => (at ? load(session, at) : Promise.resolve("")),
  enabled: session !== "" && at !== null,
  staleTime: Infinity,
  gcTime: Infinity,
});

/** The text at an event; null for a binary file. The one before stays until the new one is there. */
export const useContent = (session: string, at: At | null) => useQuery({ ...query(session, at), placeholderData: (before: string | null | undefined) => before });

/** The author of each line, as far as the versions up to `seq` tell. */
export function useAuthors(session: string, versions: readonly FileVersion[], seq: number, enabled: boolean): string[] {
  const past = versions.filter((each) => each.seq <= seq && each.kind !== "deleted").slice(-MAX_VERSIONS);
  const first = past[0];
  const authoredVersions: { at: At; by: string }[] = [
    ...(first && first.kind !== "created" ? [{ at: { seq: first.seq, version: "before" as const }, by: "" }] : []),
    ...past.map((each) => ({ at: { seq: each.seq, version: "after" as const }, by: each.by })),
  ];
  const texts = useQueries({
    queries: authoredVersions.map(({ at }) => ({ ...query(session, at), enabled: enabled && session !== "" })),
    combine: (results) => results.map((each) => each.data),
  });
  const writers = authoredVersions.map((each) => each.by).join("\n");
  return useMemo(() => {
    if (texts.length === 0 || texts.some((each) => typeof each !== "string" || each.length > MAX_CHARS)) return NOBODY;
    const names = writers.split("\n");
    return authorsOf(texts.map((each, index) => ({ text: each as string, by: names[index] ?? "" })));
  }, [texts, writers]);
}

const NOBODY: string[] = [];

export function authorsOf(versions: readonly { text: string; by: string }[]): string[] {
  let lines: string[] = [];
  let authors: string[] = [];
  for (const { text, by } of versions) {
    const next = linesOf(text);
    const known = authors;
    authors = stepsOf(lines, next).filter((step) => step.sign !== "-").map((step) => (step.sign === "+" ? by : known[step.old] ?? ""));
    lines = next;
  }
  return authors;
}

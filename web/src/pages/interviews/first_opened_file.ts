// The file that a room opens first: the starter of the question, not its tests.
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { useSearchParams } from "wouter";
import { type Schemas, get } from "../../api/http_client";

const STATEMENT = "QUESTION.md";
const TEST = /(^|\/)(tests?|__tests__)\/|(^|\/)test_[^/]*$|[._-](test|spec)\.\w+$|_test\.\w+$/;
const CONFIGURATION = /(^|\/)\.|\.(json|toml|lock|mod|sum|cfg|ini)$/;

export function startingFile(paths: readonly string[]): string {
  const rest = paths.filter((path) => path !== STATEMENT);
  return rest.find((path) => !TEST.test(path) && !CONFIGURATION.test(path)) ?? rest[0] ?? "";
}

/** The path of that file. A listing is ready sooner than a search. */
export const startingFileQuery = (workspace: string) => ({
  queryKey: ["starting-file", workspace],
  staleTime: Infinity,
  queryFn: async () => startingFile((await get<{ items: Schemas["File"][] }>(`/sessions/${workspace}/files?recursive=true&limit=100`)).items.filter((each) => each.kind === "file").map((each) => each.path)),
});

/** Open it, once, if no file is open in this room. */
export function useStartingFile(workspace: string): void {
  const [params, setParams] = useSearchParams();
  const isNeeded = !params.has("file");
  const found = useQuery({ ...startingFileQuery(workspace), enabled: isNeeded });
  const path = found.data ?? "";
  useEffect(() => {
    if (!isNeeded || !path || sessionStorage.getItem(`hutch.opened.${workspace}`)) return;
    sessionStorage.setItem(`hutch.opened.${workspace}`, path);
    setParams((before) => { const after = new URLSearchParams(before); after.set("file", path); return after; }, { replace: true });
  }, [isNeeded, path, workspace, setParams]);
}

/** The workspace that the address names; a change of the workspace forgets file and panel of the one before. */
export function useWorkspaceInAddress(workspace: string): boolean {
  const [params, setParams] = useSearchParams();
  const isShown = params.get("ws") === workspace;
  useEffect(() => {
    if (isShown) return;
    const stored = sessionStorage.getItem(`hutch.opened.${workspace}`);
    setParams(new URLSearchParams({ ws: workspace, ...(stored ? { file: stored } : {}) }), { replace: true });
  }, [isShown, workspace, setParams]);
  return isShown;
}

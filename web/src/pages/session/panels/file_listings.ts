// The listings of opened directories. A listing stays until the next one is there, however often files change.
import { useQueries, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { type Schemas, get } from "../../../api/http_client";

export type File = Schemas["File"];
const byName = new Intl.Collator(); // sorts 10,000 names several times as fast as localeCompare

async function listAll(id: string, path: string): Promise<File[]> {
  const files: File[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const page: Schemas["FilePage"] = await get(`/sessions/${id}/files?limit=1000&path=${encodeURIComponent(path)}&cursor=${encodeURIComponent(cursor)}`);
    files.push(...page.items);
    cursor = page.next ?? null;
  }
  return files.sort((a, b) => Number(b.kind === "directory") - Number(a.kind === "directory") || byName.compare(a.path, b.path));
}

/** `changed` is the number of the newest change of a file. */
export function useListings(id: string, directories: readonly string[], changed: number) {
  const queries = useQueryClient();
  const listings = useQueries({ queries: directories.map((path) => ({ queryKey: ["files", id, path], queryFn: () => listAll(id, path), staleTime: 0 })) });
  const newest = useRef(changed);
  const listed = useRef(changed);
  const isListing = useRef(false);
  // Changes that arrive during a listing are listed by the next one: many changes never keep one from its end.
  useEffect(() => {
    newest.current = changed;
    const renew = async () => {
      isListing.current = true;
      while (listed.current < newest.current) {
        listed.current = newest.current;
        await queries.invalidateQueries({ queryKey: ["files", id] });
      }
      isListing.current = false;
    };
    if (!isListing.current) void renew();
  }, [queries, id, changed]);
  return listings;
}

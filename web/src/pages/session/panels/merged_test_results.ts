// The newest result of every test: those of the newest run, and for tests that it did not run, those of runs before it,
// back to the newest run of all tests.
import { type Schemas, get } from "../../../api/http_client";

type Case = Schemas["Case"];
type TestRun = Pick<Schemas["TestRun"], "id" | "partial" | "state" | "total" | "stored">;
/** `isOlder`: the newest run did not include it. */
export type Result = Case & { key: string; isOlder: boolean };

const PAGE = 200;
const MAX_CASES = 5000;

/** The runs whose results are shown, the newest first. */
export function runsToMerge<Run extends TestRun>(runs: readonly Run[]): Run[] {
  const ended = runs.filter((each) => each.state !== "running");
  const merged: Run[] = [];
  for (const run of ended) {
    const isNewest = merged.length === 0;
    if (isNewest || run.stored > 0) merged.push(run);
    if (!run.partial && (isNewest || run.total > 0)) break; // an earlier run that found nothing says nothing
  }
  return merged;
}

/** Lists of results, the newest run first, as one list. */
export function mergeResults(lists: readonly (readonly Case[])[]): Result[] {
  const found = new Map<string, Result>();
  lists.forEach((cases, age) => {
    const seen = new Map<string, number>(); // a name can occur more than once in a run
    for (const each of cases) {
      const name = `${each.suite}\n${each.name}`;
      const count = seen.get(name) ?? 0;
      seen.set(name, count + 1);
      const key = count ? `${name}\n${count}` : name;
      if (!found.has(key)) found.set(key, { ...each, key, isOlder: age > 0 });
    }
  });
  return [...found.values()];
}

export async function readResults(session: string, runs: readonly TestRun[]): Promise<Result[]> {
  return mergeResults(await Promise.all(runs.map((run) => allCases(session, run.id))));
}

async function allCases(session: string, run: string): Promise<Case[]> {
  const cases: Case[] = [];
  for (let cursor: string | null = ""; cursor !== null && cases.length < MAX_CASES; ) {
    const page: Schemas["CasePage"] = await get(`/sessions/${session}/tests/${run}/cases?limit=${PAGE}&cursor=${encodeURIComponent(cursor)}`);
    cases.push(...page.items);
    cursor = page.next ?? null;
  }
  return cases;
}

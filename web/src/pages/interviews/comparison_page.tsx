// Compares candidates on one question by their actions. The user chooses the column to sort by; there is no single score.
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { Link } from "wouter";
import { get } from "../../api/http_client";
import { ProblemLine } from "../../shared/error_message";
import { SafeText } from "../../shared/safe_text";
import { setPageTitle } from "../../shared/page_title";
import { text as all } from "../../strings/interviews";
import { duration } from "./interview_clock";

const text = all.comparison;
const MAX_RUNS = 12;
type Run = { ms: number; passed: number; failed: number; aided: boolean; session: string; seq: number };
type Row = {
  interview: string; candidate_name: string; title: string; ended_ms: number; opened_seq: number; languages: string[]; version: number; digest: string; extra_time_percent: number; used_ms: number;
  tests: Run[]; first_all_passed_ms: number | null; hidden_passed: number | null; hidden_total: number | null; hidden_seq: number; ai_replies: number; ai_test_runs: number;
  help: { offered: number; accepted: number; dismissed: number }; levels: string[]; own_chars: number; ai_chars: number; other_chars: number;
  code: { findings: number; max_complexity: number } | null; ratings: { by_name: string; criterion: string; points: number }[];
};
type Column = { name: string; value?: (row: Row) => number | string; shown: (row: Row) => ReactNode };

const share = (row: Row, chars: number) => Math.round((100 * chars) / Math.max(1, row.own_chars + row.ai_chars + row.other_chars));
const NEVER = Number.POSITIVE_INFINITY;

const COLUMNS: Column[] = [
  { name: text.candidate, value: (row) => row.candidate_name, shown: (row) => <><Link href={`/i/${row.interview}/report`} className="text-link underline"><SafeText text={row.candidate_name || all.noCandidate} /></Link><span className="block text-12 text-t3"><SafeText text={row.title} /> · {row.languages.join(", ")}{row.extra_time_percent > 0 && ` · ${text.extra(row.extra_time_percent)}`}</span></> },
  { name: text.passedAt, value: (row) => row.first_all_passed_ms ?? NEVER, shown: (row) => (row.first_all_passed_ms === null ? text.never : duration(row.first_all_passed_ms)) },
  { name: text.hidden, value: (row) => (row.hidden_total ? -(row.hidden_passed ?? 0) / row.hidden_total : NEVER), shown: (row) => (row.hidden_total === null ? "–" : <Link href={`/s/${row.interview}/play?at=${row.hidden_seq}`} className="text-link underline">{text.of(row.hidden_passed ?? 0, row.hidden_total)}</Link>) },
  { name: text.runs, value: (row) => row.tests.length, shown: (row) => <Runs runs={row.tests} /> },
  { name: text.used, value: (row) => row.used_ms, shown: (row) => <Link href={`/s/${row.interview}/play?at=${row.opened_seq}`} className="text-link underline">{duration(row.used_ms)}</Link> },
  { name: text.ai, value: (row) => row.ai_replies, shown: (row) => <>{text.replies(row.ai_replies, row.ai_test_runs)}<span className="block text-12 text-t3">{text.help(row.help.offered, row.help.accepted)}{row.levels.length > 0 && ` · ${row.levels.map((each) => all.levels[each] ?? each).join(" › ")}`}</span></> },
  { name: text.own, value: (row) => -share(row, row.own_chars), shown: (row) => <>{share(row, row.own_chars)} %<span className="block text-12 text-t3">{text.others(share(row, row.ai_chars), share(row, row.other_chars))}</span></> },
  { name: text.code, value: (row) => row.code?.findings ?? NEVER, shown: (row) => (row.code ? text.measured(row.code.findings, row.code.max_complexity) : "–") },
  { name: text.ratings, shown: (row) => (row.ratings.length === 0 ? "–" : <ul>{row.ratings.map((each, index) => <li key={index}><SafeText text={`${each.criterion}: ${each.points}`} /> <span className="text-12 text-t3"><SafeText text={each.by_name} /></span></li>)}</ul>) },
];

/** The newest runs of the visible tests, each leading to its moment. */
function Runs({ runs }: { runs: Run[] }) {
  if (runs.length === 0) return "–";
  return (
    <span className="flex max-w-56 flex-wrap gap-x-2">
      {runs.length > MAX_RUNS && <span className="text-t3">{text.earlier(runs.length - MAX_RUNS)}</span>}
      {runs.slice(-MAX_RUNS).map((run) => <Link key={`${run.session}/${run.seq}`} href={`/s/${run.session}/play?at=${run.seq}`} title={text.run(duration(run.ms), run.aided)} className={`underline ${run.failed ? "text-bad" : "text-ok"}`}>{run.failed ? "✗" : "✓"}{run.passed}/{run.passed + run.failed}</Link>)}
    </span>
  );
}

export function ComparisonPage({ question }: { question: string }) {
  const found = useQuery({ queryKey: ["comparison", question], queryFn: () => get<Row[]>(`/interview-comparison?question=${encodeURIComponent(question)}`) });
  const [sort, setSort] = useState({ column: -1, isDown: false });
  useEffect(() => {
    setPageTitle(text.title(question));
  }, [question]);
  const value = COLUMNS[sort.column]?.value;
  const rows = value ? (found.data ?? []).toSorted((a, b) => compare(value(a), value(b)) * (sort.isDown ? -1 : 1)) : found.data ?? [];
  const versions = new Set(rows.map((row) => row.digest)).size;
  return (
    <main className="h-full overflow-auto bg-panel p-6 max-sm:p-3">
      <p><Link href="/interviews" className="text-t2 hover:underline">‹ {all.title}</Link></p>
      <h1 className="mt-1 text-20 font-semibold"><SafeText text={text.title(question)} /></h1>
      <p className="mt-1 text-t2">{text.about}</p>
      {versions > 1 && <p className="mt-1 text-warn">{text.versions}</p>}
      {found.isError && <ProblemLine error={found.error} retry={() => void found.refetch()} />}
      {found.isPending && <p role="status" className="mt-4 text-t2">{text.reading}</p>}
      {found.isSuccess && rows.length === 0 && <p className="mt-4 text-t2">{text.none}</p>}
      {rows.length > 0 && (
        <div role="region" aria-label={text.title(question)} tabIndex={0} className="mt-4 overflow-x-auto">
          <table className="w-full text-left">
            <thead>
              <tr className="text-12 text-t2">
                {COLUMNS.map((column, index) => (
                  <th key={column.name} scope="col" aria-sort={sort.column === index ? (sort.isDown ? "descending" : "ascending") : undefined} className="py-1 pr-4 font-normal whitespace-nowrap">
                    {column.value ? <button type="button" className="min-h-6 hover:underline" onClick={() => setSort({ column: index, isDown: sort.column === index && !sort.isDown })}>{column.name}{sort.column === index && (sort.isDown ? " ↓" : " ↑")}</button> : column.name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>{rows.map((row) => <tr key={`${row.interview}/${row.opened_seq}`} className="border-t align-top">{COLUMNS.map((column) => <td key={column.name} className="py-2 pr-4">{column.shown(row)}</td>)}</tr>)}</tbody>
          </table>
        </div>
      )}
    </main>
  );
}

const compare = (a: number | string, b: number | string) => (typeof a === "string" || typeof b === "string" ? String(a).localeCompare(String(b)) : a === b ? 0 : a < b ? -1 : 1);

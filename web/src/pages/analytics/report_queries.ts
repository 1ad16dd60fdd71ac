// A report as the address names it: its name, grouping, time and filters.
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "wouter";
import { type Schemas, get } from "../../api/http_client";
import { dollars, modelName, seconds, tokens } from "../../display_format";
import { text } from "../../strings/analytics";

export type Report = Schemas["Report"];
export type Unit = Schemas["Column"]["unit"];
export type Value = number | null | undefined;

export const REPORTS = ["outcomes", "spend", "reliability", "latency"] as const;
export const FIELDS = ["repository", "user", "model", "persona"] as const;
export type Field = (typeof FIELDS)[number];
type Name = (typeof REPORTS)[number];

const GROUPS: Record<Name, readonly string[]> = {
  outcomes: ["all", "repository", "user", "session", "task"],
  spend: ["all", "model", "repository", "user", "persona", "session", "task"],
  reliability: ["all", "model", "repository", "user", "persona", "session", "task"],
  latency: ["all"],
};
const REFRESH_MS = 15_000;
const FIRST_COLUMNS: Record<Name, string> = { outcomes: "cost_usd", spend: "cost_usd", reliability: "runs", latency: "p95_s" };
const AUTOMATIC_STEPS: Record<string, string> = { "1h": "minute", "24h": "hour" };

/** The request that the address describes. Values that do not fit the report are left out, so that tabs can keep the others. */
export function useReportRequest() {
  const [params, setParams] = useSearchParams();
  const named = params.get("report") ?? "";
  const isBudgets = named === "budgets";
  const name: Name = REPORTS.find((each) => each === named) ?? "outcomes";
  const groups = GROUPS[name];
  const group = groups.find((each) => each === params.get("by")) ?? "all";
  const since = params.get("since") ?? "30d";
  const until = params.get("until") ?? "";
  const step = Object.keys(text.steps).find((each) => each === params.get("step")) ?? AUTOMATIC_STEPS[since] ?? "day";
  const fields = name === "spend" || name === "reliability" ? FIELDS : FIELDS.slice(0, 2);
  const only = fields.flatMap((field): [Field, string][] => (params.get(field) ? [[field, params.get(field) ?? ""]] : []));
  const set = (changed: Record<string, string>) => setParams((before) => {
    const after = new URLSearchParams(before);
    for (const [key, value] of Object.entries(changed)) {
      if (value) after.set(key, value);
      else after.delete(key);
    }
    return after;
  }, { replace: true });
  const query = new URLSearchParams({ group, step, since, ...(until ? { until } : {}), ...Object.fromEntries(only) }).toString();
  return { name, isBudgets, groups, group, since, until, step, fields, only, query, set, params, column: params.get("show") ?? FIRST_COLUMNS[name], sort: params.get("sort") ?? "" };
}

export type ReportRequest = ReturnType<typeof useReportRequest>;

/** The address of a report with these changes, for links. */
export function reportAddress(params: URLSearchParams, changed: Record<string, string>): string {
  const after = new URLSearchParams(params);
  for (const [key, value] of Object.entries(changed)) {
    if (value) after.set(key, value);
    else after.delete(key);
  }
  const rest = after.toString();
  return rest ? `/analytics?${rest}` : "/analytics";
}

export const useReport = (request: ReportRequest) =>
  useQuery({
    queryKey: ["analytics", request.name, request.query],
    enabled: !request.isBudgets,
    queryFn: ({ signal }) => get<Report>(`/analytics/reports/${request.name}?${request.query}`, signal),
    refetchInterval: REFRESH_MS,
    placeholderData: (before) => (before?.name === request.name ? before : undefined),
  });

/** The values that a filter can have, as the spend of the same time names them. */
export const useFilterValues = (field: Field | "", request: ReportRequest) =>
  useQuery({
    queryKey: ["analytics", "values", field, request.since, request.until],
    enabled: field !== "",
    staleTime: 60_000,
    queryFn: async ({ signal }) => {
      const time = new URLSearchParams({ since: request.since, ...(request.until ? { until: request.until } : {}) }).toString();
      const found = await get<Report>(`/analytics/reports/spend?group=${field}&${time}`, signal);
      return found.rows.filter((row) => row.key !== "").map((row): [string, string] => [row.key, row.label]);
    },
  });

/** A value as people read it. */
export function shown(value: Value, unit: Unit): string {
  if (value === null || value === undefined) return text.none;
  if (unit === "usd") return value > 0 && value < 0.001 ? `$${value.toPrecision(2)}` : dollars(value);
  if (unit === "share") return `${(value * 100).toFixed(value > 0 && value < 0.1 ? 1 : 0)} %`;
  if (unit === "s") return value === 0 ? "0 s" : value < 1 ? `${Math.max(1, Math.round(value * 1000))} ms` : seconds(value);
  return unit === "tokens" ? tokens(value) : value.toLocaleString("en");
}

/** A moment of a chart: its days and hours are those of UTC. */
export function moment(atMs: number, step: string): string {
  const iso = new Date(atMs).toISOString();
  return step === "day" ? iso.slice(0, 10) : `${iso.slice(0, 10)} ${iso.slice(11, 16)}`;
}

/** A row's name. A scripted model is a file of the server; its path says nothing to a reader. */
export function labelOf(group: string, row: { key: string; label: string }): string {
  if (group === "latency") {
    const [kind = "", ...name] = row.label.split("/");
    const named = name.join("/");
    return [text.latencies[kind] ?? kind, named.startsWith("scripted:") ? modelName(named) : named].filter(Boolean).join(": ");
  }
  if (row.label.startsWith("scripted:")) return modelName(row.label);
  return row.label || (group === "all" ? text.total : text.unknown);
}

/** The first line is the sum of all keys, except in the latencies. Later lines without a key count events of unknown keys. */
export const lineName = (report: Report, line: Report["series"][number]) => (line.key === "" && line === report.series[0] ? (report.group === "all" ? text.total : text.sum) : labelOf(report.name === "latency" ? "latency" : report.group, line));

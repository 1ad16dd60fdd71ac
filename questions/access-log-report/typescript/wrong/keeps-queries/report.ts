// A report of an access log: its routes by use, with their failures and their slowest times.

import { parseLine } from "./log_line.ts";
import type { LogRequest } from "./log_line.ts";

export interface RouteSummary {
  route: string;
  count: number;
  errors: number;
  p95_ms: number;
}

export interface Report {
  skipped: number;
  routes: RouteSummary[];
}

/** The number of skipped lines, and the routes, those with the most requests first. */
export function summarize(lines: string[]): Report {
  let skipped = 0;
  const groups: Map<string, LogRequest[]> = new Map();
  for (const line of lines) {
    const request = parseLine(line);
    if (!request) {
      if (line.trim()) skipped++;
      continue;
    }
    const route = routeOf(request);
    const group = groups.get(route);
    if (group) group.push(request);
    else groups.set(route, [request]);
  }
  const routes = [...groups].map(([route, requests]) => summaryOf(route, requests));
  routes.sort((one, other) => other.count - one.count || (one.route < other.route ? -1 : 1));
  return { skipped, routes };
}

function summaryOf(route: string, requests: LogRequest[]): RouteSummary {
  return {
    route,
    count: requests.length,
    errors: requests.filter((each) => each.status >= 500).length,
    p95_ms: percentile95(requests.map((each) => each.durationMs)),
  };
}

function routeOf(request: LogRequest): string {
  const parts = request.path.split("/");
  return `${request.method} ${parts.map((part) => (/^\d+$/.test(part) ? ":id" : part)).join("/")}`;
}

function percentile95(values: number[]): number {
  const rank = Math.ceil((95 * values.length) / 100);
  return values.sort((one, other) => one - other)[rank - 1];
}

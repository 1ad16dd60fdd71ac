// A report of an access log: its routes by use, with their failures and their slowest times.

import { parseLine } from "./log_line.ts";

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
  throw new Error(`not written yet; it will use ${parseLine.name}`);
}

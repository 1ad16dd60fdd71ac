// Right, but goes through all requests again for each route.

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

function routeOf(method: string, path: string): string {
  const parts = path.split("?")[0].split("/");
  return `${method} ${parts.map((part) => (/^\d+$/.test(part) ? ":id" : part)).join("/")}`;
}

export function summarize(lines: string[]): Report {
  const given = lines.filter((line) => line.trim());
  const requests = given.map(parseLine).filter((each) => each !== null);
  const named = requests.map((request) => ({ name: routeOf(request.method, request.path), request }));
  const routes: RouteSummary[] = [];
  for (const { name } of named) {
    if (routes.some((each) => each.route === name)) continue;
    const own = named.filter((each) => each.name === name).map((each) => each.request);
    const times = own.map((each) => each.durationMs).sort((one, other) => one - other);
    routes.push({
      route: name,
      count: own.length,
      errors: own.filter((each) => each.status >= 500).length,
      p95_ms: times[Math.ceil((95 * own.length) / 100) - 1],
    });
  }
  routes.sort((one, other) => other.count - one.count || (one.route < other.route ? -1 : 1));
  return { skipped: given.length - requests.length, routes };
}

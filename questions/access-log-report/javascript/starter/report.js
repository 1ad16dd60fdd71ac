// A report of an access log: its routes by use, with their failures and their slowest times.

import { parseLine } from "./log_line.js";

/** The number of skipped lines, and the routes, those with the most requests first. */
export function summarize(lines) {
  throw new Error(`not written yet; it will use ${parseLine.name}`);
}

// Reads one line of the access log.

export interface LogRequest {
  time: string;
  method: string;
  path: string; // with its query
  status: number;
  durationMs: number;
}

/** The request of a line, or null if the line is not one. */
export function parseLine(line: string): LogRequest | null {
  const parts = line.trim().split(/\s+/);
  if (parts.length !== 5) return null;
  const [time, method, path, status, durationMs] = parts;
  if (!/^\d+$/.test(status) || !/^\d+$/.test(durationMs) || !path.startsWith("/")) return null;
  return { time, method, path, status: Number(status), durationMs: Number(durationMs) };
}

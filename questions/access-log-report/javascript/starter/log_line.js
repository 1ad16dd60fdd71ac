// Reads one line of the access log.

/** The request of a line, or null if the line is not one. */
export function parseLine(line) {
  const parts = line.trim().split(/\s+/);
  if (parts.length !== 5) return null;
  const [time, method, path, status, durationMs] = parts;
  if (!/^\d+$/.test(status) || !/^\d+$/.test(durationMs) || !path.startsWith("/")) return null;
  return { time, method, path, status: Number(status), durationMs: Number(durationMs) };
}

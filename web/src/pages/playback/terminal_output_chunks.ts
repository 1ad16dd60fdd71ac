// Printed output as chunks for a terminal: the commands of shells in one stream, each terminal in its own.
import type { AnyEntry } from "../../fold/view_types";

export const SHELLS = "shells";
export type Output = { source: string; seq: number; text: string; columns: number; rows: number };

const [BOLD, RED, PLAIN] = ["\x1b[1m", "\x1b[31m", "\x1b[0m"];
const toLines = (text: string) => text.replace(/\r?\n/g, "\r\n");

export function outputOf({ seq, event }: AnyEntry): Output | null {
  const text = (name: string) => (typeof event[name] === "string" ? event[name] : "");
  const made = (source: string, content: string, size: { columns: number; rows: number } = { columns: 0, rows: 0 }): Output => ({ source, seq, text: content, ...size });
  const size = () => ({ columns: Number(event["columns"]) || 80, rows: Number(event["rows"]) || 24 });
  switch (event.type) {
    case "command.started":
      return text("terminal") ? null : made(SHELLS, `\x1b[0m${BOLD}$ ${toLines(text("command"))}${PLAIN}\r\n`);
    case "shell.printed":
      return made(SHELLS, toLines(text("text")));
    case "command.ended": {
      const code = event["exit_code"];
      return code === 0 || text("terminal") ? null : made(SHELLS, `${PLAIN}${RED}[${code == null ? `signal ${String(event["signal"] ?? "?")}` : `exit ${String(code)}`}]${PLAIN}\r\n`);
    }
    case "terminal.opened":
    case "terminal.resized":
      return made(text("terminal"), "", size());
    case "terminal.printed":
      return made(text("terminal"), text("text"));
    default:
      return null;
  }
}

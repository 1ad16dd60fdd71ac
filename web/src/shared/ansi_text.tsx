// Output of commands: colours by their classes, everything else that a terminal would obey is dropped.
import { Fragment, type ReactNode } from "react";
import { SafeText } from "./safe_text";

const SEQUENCE = /\u001b(?:\[([0-9;:]*)m|\[[0-9;:<=>?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
const COLOURS: Record<number, string> = { 31: "text-bad", 32: "text-ok", 33: "text-warn", 34: "text-link", 35: "text-agent", 36: "text-info", 90: "text-t3", 91: "text-bad", 92: "text-ok", 93: "text-warn", 94: "text-link", 95: "text-agent", 96: "text-info" };

export function Ansi({ text }: { text: string }) {
  const parts: ReactNode[] = [];
  let at = 0;
  let colour = "";
  let bold = false;
  const add = (piece: string) => {
    if (!piece) return;
    const clean = piece.replace(/\r\n/g, "\n").replace(/[^\n]*\r(?!\n)/g, "");
    const className = `${colour} ${bold ? "font-semibold" : ""}`.trim();
    parts.push(className ? <span key={parts.length} className={className}><SafeText text={clean} /></span> : <Fragment key={parts.length}><SafeText text={clean} /></Fragment>);
  };
  for (const match of text.matchAll(SEQUENCE)) {
    add(text.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[1] === undefined) continue;
    for (const code of (match[1] || "0").split(";").map(Number)) {
      if (code === 0) [colour, bold] = ["", false];
      else if (code === 1) bold = true;
      else if (code === 22) bold = false;
      else if (code === 39) colour = "";
      else if (COLOURS[code]) colour = COLOURS[code];
    }
  }
  add(text.slice(at));
  return <>{parts}</>;
}

export const plain = (text: string) => text.replace(SEQUENCE, "");

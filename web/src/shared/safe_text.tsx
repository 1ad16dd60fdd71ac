// Untrusted text. Characters that hide or reorder the text beside them are shown as marks.
import { Fragment } from "react";

// Bidirectional controls, zero-width characters, and other controls besides newline and tab.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/;
const SPLIT = new RegExp(`(${HIDDEN.source})`);
const BREAKS: Record<string, string> = { "\n": "↵", "\t": "⇥" }; // look like a space in a name
const SPLIT_ONE_LINE = new RegExp(`(${HIDDEN.source}|[\n\t])`);

export const hasHidden = (text: string) => HIDDEN.test(text);

const nameOf = (char: string) => `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;

/** The text with names for characters that hide or reorder others, for places that take no elements. */
export const showHidden = (text: string) => (HIDDEN.test(text) ? text.replace(new RegExp(HIDDEN.source, "g"), nameOf) : text);

/** A sentence of the server, with its `commands` as code. */
export function WithCode({ text }: { text: string }) {
  return text.split("`").map((part, index) => (index % 2 ? <code key={index}><SafeText text={part} /></code> : <SafeText key={index} text={part} />));
}

/** `oneLine` is for names: it shows line breaks and tabs too. */
export function SafeText({ text, oneLine = false }: { text: string; oneLine?: boolean }) {
  const split = oneLine ? SPLIT_ONE_LINE : SPLIT;
  if (!split.test(text)) return text;
  return text.split(split).map((part, index) =>
    part.length === 1 && split.test(part) ? (
      <span key={index} className="hidden-char">{BREAKS[part] ?? nameOf(part)}</span>
    ) : (
      <Fragment key={index}>{part}</Fragment>
    ),
  );
}

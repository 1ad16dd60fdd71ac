// Text of others. Characters that hide or reorder what stands beside them are shown as marks.
import { Fragment } from "react";

// Bidirectional controls, zero-width characters, and other controls besides newline and tab.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/;
const SPLIT = new RegExp(`(${HIDDEN.source})`);

export const hasHidden = (text: string) => HIDDEN.test(text);

const nameOf = (char: string) => `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;

/** The text with names for characters that hide or reorder others, for places that take no elements. */
export const showHidden = (text: string) => (HIDDEN.test(text) ? text.replace(new RegExp(HIDDEN.source, "g"), nameOf) : text);

export function SafeText({ text }: { text: string }) {
  if (!HIDDEN.test(text)) return text;
  return text.split(SPLIT).map((part, index) =>
    part.length === 1 && HIDDEN.test(part) ? (
      <span key={index} className="hidden-char">{nameOf(part)}</span>
    ) : (
      <Fragment key={index}>{part}</Fragment>
    ),
  );
}

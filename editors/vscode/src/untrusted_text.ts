// Texts of sessions are hostile: an agent, a repository or a model wrote them. VS Code makes links, also to commands, of
// "[text](command:…)" in messages, and icons of "$(name)" in labels. Here such text stays text.
import { MAX_NOTICE_CHARS } from "./limits";

// Controls, and characters without width or that change the direction of what follows.
const INVISIBLE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const WORD_JOINER = "\u2060"; // without width; it separates what would be a link or an icon

/** The text on as many lines as it has, for an editor: nothing in it is hidden. */
export function visibleLines(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").replace(INVISIBLE, "\ufffd");
}

/** The text on one line, shortened. */
export function plainText(text: string, maxChars = MAX_NOTICE_CHARS): string {
  const line = visibleLines(oneLine(text)).replace(/\](?=\()|\$(?=\()/g, `$&${WORD_JOINER}`);
  return line.length > maxChars ? `${line.slice(0, maxChars - 1)}…` : line;
}

/** True if `plainText` shows all of it. */
export function isShownWhole(text: string, maxChars = MAX_NOTICE_CHARS): boolean {
  return !text.trim().includes("\n") && plainText(text, Infinity).length <= maxChars;
}

const oneLine = (text: string): string => text.trim().replace(/\s*[\r\n]+\s*/g, " ⏎ ");

// The text of an error for a person: the problem and the remedy, in a sentence.
import { Problem } from "../../../clients/typescript/src/index";
import { plainText } from "./untrusted_text";

const MAX_CHARS = 500;

export function problemText(error: unknown): string {
  if (error instanceof Problem) {
    if (error.status === 401) return "The server refuses the token: it was revoked, or has expired. Sign in again.";
    return plainText(error.message || `The server answered ${error.status}.`, MAX_CHARS);
  }
  if (isUnreachable(error)) return `The server does not answer${reason(error)}. Start it with \`hutch up\`, or sign in to another.`;
  return plainText(error instanceof Error ? error.message : String(error), MAX_CHARS);
}

/** True if no response came: `fetch` throws a TypeError then. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof TypeError || (error instanceof Error && ["TimeoutError", "AbortError"].includes(error.name));
}

function reason(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  const code = typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : "";
  return code ? ` (${plainText(code, 60)})` : "";
}

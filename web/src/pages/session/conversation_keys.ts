// Keys on the rows of the conversation: from row to row and turn to turn, open and close, to the editor, copy, speak.
// They act while no field has the focus, and never inside a dialog.
import type { Virtualizer } from "@tanstack/react-virtual";
import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import { copyText } from "../../clipboard";
import { type ShortcutId, isPressed } from "../../shared/shortcuts";
import { strings } from "../../strings";
import { isTyping } from "../home_keys";
import { type Item, argumentsOf, textOf } from "./conversation_items";
import { useSessionContext } from "./session_context";

const MAX_SPEECH_CHARS = 2000;
const FRAMES = 20; // until a row that was far away is drawn

type Target = { items: readonly Item[]; virtual: Virtualizer<HTMLDivElement, Element>; scroller: RefObject<HTMLDivElement | null> };

/** The row that `step` leads to; a turn is a prompt with its replies. */
export function rowAfter(items: readonly Item[], at: number, step: "next" | "previous" | "nextTurn" | "previousTurn"): number {
  const last = items.length - 1;
  if (step === "next") return Math.min(last, at + 1);
  if (step === "previous") return at < 0 ? last : Math.max(0, at - 1);
  const isTurn = (item: Item) => item.kind === "row" && item.row.kind === "prompt";
  const found = step === "nextTurn" ? items.findIndex((item, index) => index > at && isTurn(item)) : items.slice(0, Math.max(0, at < 0 ? items.length : at)).findLastIndex(isTurn);
  return found >= 0 ? found : step === "nextTurn" ? last : 0;
}

/** The file that a row is about, and its line. */
export function placeOf(item: Item | undefined): { path: string; line: number } | null {
  const row = item?.kind === "row" ? item.row : item?.rows[0];
  if (row?.kind === "tests" || (row?.kind === "tool" && row.tests)) {
    const failed = row.tests?.cases.find((each) => each.file);
    return failed?.file ? { path: failed.file, line: failed.line ?? 1 } : null;
  }
  if (row?.kind !== "tool") return null;
  const args = argumentsOf(row);
  const path = row.files[0]?.path ?? args["path"];
  return typeof path === "string" && path ? { path, line: Number(args["start_line"]) || 0 } : null;
}

const STEPS: [ShortcutId, Parameters<typeof rowAfter>[2]][] = [["nextTalkRow", "next"], ["previousTalkRow", "previous"], ["nextTurn", "nextTurn"], ["previousTurn", "previousTurn"]];

/** Returns the index of the row that keys moved to, which stays rendered, and the text for screen readers. */
export function useConversationKeys({ items, virtual, scroller }: Target): { focused: number; speech: string } {
  const { openFile } = useSessionContext();
  const [focused, setFocused] = useState(-1);
  const [speech, speak] = useState("");
  const pending = useRef(0);
  const focusRow = useCallback((index: number) => {
    setFocused(index);
    virtual.scrollToIndex(index, { align: "auto" });
    const request = (pending.current += 1);
    const tryFocus = (left: number) => {
      if (request !== pending.current) return;
      const row = scroller.current?.querySelector<HTMLElement>(`[data-index="${index}"]`);
      if (row) row.focus({ preventScroll: true });
      else if (left > 0) requestAnimationFrame(() => tryFocus(left - 1));
    };
    tryFocus(FRAMES);
  }, [virtual, scroller]);
  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      const target = event.target instanceof HTMLElement ? event.target : null;
      const isInConversation = target !== null && (scroller.current?.contains(target) || target === document.body);
      if (!isInConversation || event.ctrlKey || event.metaKey || event.altKey || isTyping(target) || document.querySelector("[role=dialog], [role=menu]")) return;
      const row = target.closest<HTMLElement>("[data-index]");
      const at = row ? Number(row.dataset["index"]) : -1;
      const isNamedKey = event.key.length > 1;
      if (isNamedKey && (at < 0 || target.matches("pre"))) return; // arrows scroll what has the focus
      const step = STEPS.find(([id]) => isPressed(event, id))?.[1];
      const toggle = (open: boolean) => row?.querySelector<HTMLElement>(`[aria-expanded=${String(!open)}]`)?.click();
      if (step) focusRow(rowAfter(items, at, step));
      else if (at < 0) return;
      else if (isPressed(event, "openTalkRow")) toggle(true);
      else if (isPressed(event, "closeTalkRow")) toggle(false);
      else if (event.key === "Enter" && target === row) row.querySelector<HTMLElement>("[aria-expanded]")?.click();
      else if (isPressed(event, "copyTalkRow")) void copyText(items[at] ? textOf(items[at]).trim() : "").then(() => speak(strings.session.copied));
      else if (isPressed(event, "speakTalkRow")) speak(items[at] ? textOf(items[at]).trim().slice(0, MAX_SPEECH_CHARS) : "");
      else if (isPressed(event, "editTalkRow")) {
        const place = placeOf(items[at]);
        if (place) openFile(place.path, place.line || undefined);
      } else return;
      event.preventDefault();
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [items, scroller, focusRow, openFile]);
  return { focused, speech };
}

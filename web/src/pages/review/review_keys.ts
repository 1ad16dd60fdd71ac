// Keys of a review: ] [ file, n p change, c comment, v viewed, u layout. They act only while no field has the focus.
import { useEffect } from "react";
import { isPressed } from "../../shared/shortcuts";
import { isTyping } from "../home_keys";

export function useReviewKeys(mark: (path: string) => void, turn: () => void): void {
  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("[role=dialog]")) return;
      const files = [...document.querySelectorAll<HTMLElement>("[data-file]")];
      const focusedFile = document.activeElement?.closest<HTMLElement>("[data-file]");
      const at = focusedFile ? files.indexOf(focusedFile) : -1;
      if (isPressed(event, "nextFile")) focusOn(files[Math.min(files.length - 1, at + 1)]);
      else if (isPressed(event, "previousFile")) focusOn(files[Math.max(0, at - 1)]);
      else if (isPressed(event, "nextChange") || isPressed(event, "previousChange")) focusOn(nextChange(isPressed(event, "nextChange")));
      else if (isPressed(event, "comment")) currentLine(focusedFile)?.click();
      else if (isPressed(event, "viewed") && focusedFile) mark(focusedFile.dataset["file"] ?? "");
      else if (isPressed(event, "layout")) turn();
      else return;
      event.preventDefault();
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  });
}

function focusOn(element: HTMLElement | null | undefined): void {
  element?.focus({ preventScroll: true });
  element?.scrollIntoView({ block: element.dataset["file"] ? "start" : "center" });
}

function currentLine(here: HTMLElement | null | undefined): HTMLElement | null {
  const focused = document.activeElement;
  if (focused instanceof HTMLElement && focused.dataset["line"]) return focused;
  return (here ?? document).querySelector<HTMLElement>("[data-change]");
}

/** The first line of the next or previous block of changes, from where the focus is. */
function nextChange(forward: boolean): HTMLElement | undefined {
  const all = [...document.querySelectorAll<HTMLElement>("[data-change]")];
  const from = document.activeElement;
  if (!from || from === document.body) return all[0];
  const order = forward ? Node.DOCUMENT_POSITION_FOLLOWING : Node.DOCUMENT_POSITION_PRECEDING;
  const found = all.filter((each) => each !== from && from.compareDocumentPosition(each) & order);
  return forward ? found[0] : found.at(-1);
}

// Keys of the home page. They act only while no field has the focus.
import { type RefObject, useEffect } from "react";
import { isPressed } from "../shared/shortcuts";

type Targets = { field: RefObject<HTMLInputElement | null>; list: RefObject<HTMLDivElement | null>; toggle: (id: string) => void; create: () => void };

export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && (target as HTMLInputElement).type !== "checkbox");
}

export function useHomeKeys({ field, list, toggle, create }: Targets) {
  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("[role=dialog]")) return;
      const rows = [...(list.current?.querySelectorAll<HTMLElement>("[data-row]") ?? [])].filter((row) => row.offsetParent !== null);
      const at = rows.indexOf(document.activeElement as HTMLElement);
      const move = (to: number) => rows[Math.max(0, Math.min(rows.length - 1, to))]?.focus();
      if (isPressed(event, "filter")) field.current?.focus();
      else if (isPressed(event, "newSession")) create();
      else if (isPressed(event, "nextRow")) move(at + 1);
      else if (isPressed(event, "previousRow")) move(at - 1);
      else if (isPressed(event, "select") && rows[at]?.dataset["row"]?.startsWith("ses_")) toggle(rows[at].dataset["row"] ?? "");
      else return;
      event.preventDefault();
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  });
}

// F6 moves the focus from region to region. Each region remembers its focused element. After the last region, F6 is the browser's.
import { useEffect } from "react";

const FOCUSABLE = "a[href], button:not([disabled]), input:not([disabled]), textarea, select, [tabindex='0'], [contenteditable=true]";

/** The first focus of a region: the message field, or the first visible control. */
function firstOf(region: HTMLElement): HTMLElement | undefined {
  return region.querySelector<HTMLElement>("[data-composer]") ?? [...region.querySelectorAll<HTMLElement>(FOCUSABLE)].find((each) => each.offsetParent !== null);
}

export function useRegions() {
  useEffect(() => {
    const remembered = new WeakMap<Element, HTMLElement>();
    const regions = () => [...document.querySelectorAll<HTMLElement>("nav, section[aria-label]")].filter((each) => each.offsetParent !== null && !each.parentElement?.closest("section[aria-label] section"));
    const holder = (element: Element | null) => element?.closest("section[aria-label], nav") ?? null;
    function onFocus(event: FocusEvent) {
      const region = holder(event.target as Element);
      if (region && event.target instanceof HTMLElement) remembered.set(region, event.target);
    }
    function onKey(event: KeyboardEvent) {
      if (event.key !== "F6" || event.ctrlKey || event.altKey || event.metaKey) return;
      const all = regions();
      const at = all.indexOf(holder(document.activeElement) as HTMLElement);
      const others = event.shiftKey ? all.slice(0, Math.max(0, at)).reverse() : all.slice(at + 1);
      for (const next of others) {
        const before = remembered.get(next);
        const target = before?.isConnected && before.offsetParent !== null ? before : firstOf(next);
        if (!target) continue; // a region with nothing in it, such as an editor without a file
        event.preventDefault();
        return target.focus();
      }
    }
    document.addEventListener("focusin", onFocus);
    window.addEventListener("keydown", onKey, true);
    return () => {
      document.removeEventListener("focusin", onFocus);
      window.removeEventListener("keydown", onKey, true);
    };
  }, []);
}

// The keys that open the palette or the list of keys, on every page. The dialogs themselves are loaded after the page.
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { strings } from "../strings";
import type { Typed } from "./command_palette_dialogs";
import { type ShortcutId, isPressed } from "./shortcuts";

const PLACES: [ShortcutId, string][] = [["goHome", "/"], ["goTasks", "/tasks"], ["goChanges", "/changes"], ["goInterviews", "/interviews"], ["goAnalytics", "/analytics"], ["goActivity", "/activity"], ["goSettings", "/settings/you"]];
const LOAD_AFTER_MS = 3000;
const NOTHING: Typed = { text: "", isPicked: false, before: null };

type Dialogs = typeof import("./command_palette_dialogs");
let dialogs: Dialogs | null = null;

async function load(): Promise<void> {
  dialogs ??= await import("./command_palette_dialogs");
}

/** Loads the dialogs once the page is there, or at the first key or touch. */
function useLoading(): void {
  useEffect(() => {
    const now = () => { load().catch((error: unknown) => console.warn("The palette cannot be loaded.", error)); };
    const timer = setTimeout(now, LOAD_AFTER_MS);
    window.addEventListener("keydown", now, { once: true });
    window.addEventListener("pointerdown", now, { once: true });
    return () => {
      clearTimeout(timer);
      window.removeEventListener("keydown", now);
      window.removeEventListener("pointerdown", now);
    };
  }, []);
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

const OPEN = "hutch:palette";

/** For places where Ctrl+K is not ours, such as a terminal, and for a finger. */
export const openPalette = () => { window.dispatchEvent(new Event(OPEN)); };

export function Palette({ isCandidate }: { isCandidate: boolean }) {
  const [open, setOpen] = useState<"" | "all" | "files" | "keys">("");
  const [, go] = useLocation();
  const [typed, setTyped] = useState<Typed>(NOTHING);
  const [isLoaded, setLoaded] = useState(dialogs !== null);
  useLoading();
  const isAwaited = open !== "" && !isLoaded;
  useEffect(() => {
    if (isAwaited) load().then(() => setLoaded(true), () => setOpen(""));
  }, [isAwaited]);
  useEffect(() => {
    let pressedG = 0;
    function show(what: "all" | "files") {
      setTyped({ ...NOTHING, before: document.activeElement });
      setOpen(what);
    }
    const showAll = () => show("all");
    function onKey(event: globalThis.KeyboardEvent) {
      const mod = event.ctrlKey || event.metaKey;
      const place = PLACES.find(([id]) => isPressed(event, id));
      if (event.target instanceof Element && event.target.closest(".xterm")) return;
      if (isPressed(event, "palette")) show("all");
      else if (isPressed(event, "openFile")) show("files");
      else if (mod || event.altKey || isTyping(event.target) || document.querySelector("[role=dialog]")) return;
      else if (isPressed(event, "keys")) setOpen("keys");
      else if (event.key === "g") pressedG = event.timeStamp;
      else if (event.timeStamp - pressedG < 1000 && place) go(place[1]);
      else return;
      event.preventDefault();
    }
    window.addEventListener("keydown", onKey);
    window.addEventListener(OPEN, showAll);
    return () => {
      window.removeEventListener("keydown", onKey);
      window.removeEventListener(OPEN, showAll);
    };
  }, [go]);
  const close = () => {
    setOpen("");
    setTyped(NOTHING);
  };
  if (!open) return null;
  if (!dialogs) return <EarlyKeys typed={typed} onType={setTyped} onClose={close} />;
  if (open === "keys") return <dialogs.KeyList onClose={close} />;
  return <dialogs.Finder filesOnly={open === "files"} isCandidate={isCandidate} typed={typed} showKeys={() => setOpen("keys")} onClose={close} />;
}


/** Stores keys that are typed before the dialogs are loaded. */
function EarlyKeys({ typed, onType, onClose }: { typed: Typed; onType: (typed: Typed) => void; onClose: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  return (
    <input ref={field} aria-label={strings.palette.hint} placeholder={strings.palette.hint} className="fixed top-[12vh] left-1/2 z-50 h-8 w-[calc(100vw-24px)] max-w-lg -translate-x-1/2 rounded-row border border-edge bg-panel px-2 text-14 shadow-menu" onChange={(event) => onType({ ...typed, text: event.target.value, isPicked: false })} onKeyDown={(event) => {
      if (event.key === "Escape") onClose();
      else if (event.key === "Enter") onType({ ...typed, text: event.currentTarget.value, isPicked: true });
    }} />
  );
}

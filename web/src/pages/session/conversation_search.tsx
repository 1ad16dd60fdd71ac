// Search of the whole conversation: rows that are scrolled away are not in the page, so the browser cannot find them.
import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { Field, IconButton } from "../../shared/form_controls";
import { strings } from "../../strings";
import { type Item, textOf } from "./conversation_items";

type Props = { items: readonly Item[]; show: (index: number) => void; onClose: () => void };

export function ConversationSearch({ items, show, onClose }: Props) {
  const [open, setOpen] = useState(false);
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(-1);
  const field = useRef<HTMLInputElement>(null);
  const before = useRef<Element | null>(null);
  const words = useDeferredValue(open ? typed.trim().toLowerCase() : "");
  const matches = useMemo(() => (words ? items.flatMap((item, index) => (textOf(item).toLowerCase().includes(words) ? [index] : [])) : []), [items, words]);
  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      if (event.key !== "f" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
      const target = event.target instanceof Element ? event.target : null;
      if (target?.closest(".cm-editor, .xterm, [role=dialog]") || target === field.current) return; // theirs; a second time: the browser's
      event.preventDefault();
      before.current = document.activeElement;
      setOpen(true);
      field.current?.focus();
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  if (!open) return null;
  const go = (step: number) => {
    if (!matches.length) return;
    const next = at < 0 ? (step > 0 ? matches.length - 1 : 0) : (at - step + matches.length) % matches.length; // the newest first
    setAt(next);
    show(matches[next] ?? 0);
  };
  const close = () => {
    setOpen(false);
    setAt(-1);
    onClose();
    if (before.current instanceof HTMLElement) before.current.focus();
  };
  return (
    <div role="search" className="flex h-8 shrink-0 items-center gap-2 border-b px-3">
      <Field ref={field} autoFocus value={typed} aria-label={strings.session.searchTalk} placeholder={strings.session.searchTalk} className="!h-6 min-w-0 grow text-12" onChange={(event) => { setTyped(event.target.value); setAt(-1); }} onKeyDown={(event) => {
        if (event.key === "Escape") close();
        else if (event.key === "Enter" && !event.nativeEvent.isComposing) go(event.shiftKey ? -1 : 1);
      }} />
      <span role="status" className="text-12 whitespace-nowrap text-t3">{words ? strings.session.matches(at < 0 ? 0 : matches.length - at, matches.length) : ""}</span>
      <IconButton icon="down" size={12} label={strings.session.older} className="rotate-180" onClick={() => go(1)} />
      <IconButton icon="down" size={12} label={strings.session.newer} onClick={() => go(-1)} />
      <IconButton icon="cross" size={12} label={strings.session.cancel} onClick={close} />
    </div>
  );
}

// A dialog in the middle; focus goes back to where it was when it closes.
import { Dialog as Radix } from "radix-ui";
import { type ReactNode, useState } from "react";
import { strings } from "../strings";
import { IconButton } from "./form_controls";

type Props = { title: string; aside?: string; onClose: () => void; children: ReactNode; wide?: boolean; scrolls?: boolean; returnTo?: Element | null };

/** Escape closes an open list in the dialog first. */
function keepOpen(event: KeyboardEvent): void {
  if (document.activeElement?.matches("[aria-autocomplete][aria-expanded=true]")) event.preventDefault();
}

/** The button that Enter is to press gets the focus, also if the dialog was opened from a menu, which closes meanwhile. */
function focusFirst(event: Event): void {
  const first = event.currentTarget instanceof HTMLElement ? event.currentTarget.querySelector<HTMLElement>("[data-first]") : null;
  if (!first) return;
  event.preventDefault();
  first.focus();
}

export function Dialog({ title, aside, onClose, children, wide = false, scrolls = false, returnTo = null }: Props) {
  const [before] = useState(() => returnTo ?? document.activeElement); // before a field of the dialog takes the focus
  const giveBack = (event: Event) => {
    const opened = [...document.querySelectorAll("[role=dialog]")].at(-1); // since this one was closed
    const isTaken = opened !== undefined && !opened.contains(before);
    if (!isTaken && (!(before instanceof HTMLElement) || !before.isConnected)) return;
    event.preventDefault();
    if (!isTaken && before instanceof HTMLElement) before.focus();
  };
  return (
    <Radix.Root open onOpenChange={(open) => !open && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="appear fixed inset-0 z-40 bg-veil" />
        <Radix.Content aria-describedby={undefined} onEscapeKeyDown={keepOpen} onOpenAutoFocus={focusFirst} onCloseAutoFocus={giveBack} className={`appear fixed top-[12vh] left-1/2 z-50 flex max-h-[80vh] w-[calc(100vw-24px)] -translate-x-1/2 flex-col rounded-dialog border bg-raised shadow-menu has-[>[role=group]:focus-visible]:outline-2 has-[>[role=group]:focus-visible]:outline-[var(--focus)] ${wide ? "max-w-2xl" : "max-w-lg"}`}>
          <header className="flex items-baseline gap-3 px-4 pt-4">
            <Radix.Title className="text-16 font-semibold">{title}</Radix.Title>
            {aside && <span className="meta">{aside}</span>}
          </header>
          <div {...(scrolls ? { tabIndex: 0, role: "group", "aria-label": title } : {})} className="min-h-0 overflow-auto px-4 pt-3 pb-4 focus-visible:outline-none">{children}</div>
          {scrolls && <IconButton icon="cross" label={strings.session.close} onClick={onClose} className="absolute top-3 right-3" />}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

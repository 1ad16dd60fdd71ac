// A dialog in the middle; focus goes back to where it was when it closes.
import { Dialog as Radix } from "radix-ui";
import type { ReactNode } from "react";

type Props = { title: string; aside?: string; onClose: () => void; children: ReactNode; wide?: boolean; scrolls?: boolean };

/** Escape closes an open list in the dialog first. */
function keepOpen(event: KeyboardEvent): void {
  if (document.activeElement?.matches("[aria-autocomplete][aria-expanded=true]")) event.preventDefault();
}

export function Dialog({ title, aside, onClose, children, wide = false, scrolls = false }: Props) {
  return (
    <Radix.Root open onOpenChange={(open) => !open && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="appear fixed inset-0 z-40 bg-veil" />
        <Radix.Content aria-describedby={undefined} onEscapeKeyDown={keepOpen} className={`appear fixed top-[12vh] left-1/2 z-50 flex max-h-[80vh] w-[calc(100vw-24px)] -translate-x-1/2 flex-col rounded-dialog border bg-raised shadow-menu ${wide ? "max-w-2xl" : "max-w-lg"}`}>
          <header className="flex items-baseline gap-3 px-4 pt-4">
            <Radix.Title className="text-16 font-semibold">{title}</Radix.Title>
            {aside && <span className="meta">{aside}</span>}
          </header>
          <div {...(scrolls ? { tabIndex: 0, role: "group", "aria-label": title } : {})} className="inset-focus min-h-0 overflow-auto px-4 pt-3 pb-4">{children}</div>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

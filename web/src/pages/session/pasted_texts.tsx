// Long texts that were pasted into the message field. Each is one line there, and is sent whole after the typed text.
import { useEffect, useState } from "react";
import { Button, IconButton } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { SafeText } from "../../shared/safe_text";
import { bytes } from "../../display_format";
import { strings } from "../../strings";

export const MAX_TYPED_CHARS = 2000;
const PREVIEW_CHARS = 4000;
const keyOf = (session: string) => `hutch.pasted.${session}`;

/** The texts of a session's draft. They survive a reload, and tabs share them. */
export function usePasted(session: string): [string[], (texts: string[]) => void] {
  const [texts, setTexts] = useState(() => read(session));
  useEffect(() => {
    const fromOtherTab = (event: StorageEvent) => { if (event.key === keyOf(session)) setTexts(read(session)); };
    window.addEventListener("storage", fromOtherTab);
    return () => window.removeEventListener("storage", fromOtherTab);
  }, [session]);
  return [texts, (next) => {
    if (next.length) localStorage.setItem(keyOf(session), JSON.stringify(next));
    else localStorage.removeItem(keyOf(session));
    setTexts(next);
  }];
}

function read(session: string): string[] {
  try {
    return JSON.parse(localStorage.getItem(keyOf(session)) ?? "[]") as string[];
  } catch {
    return [];
  }
}

export function PastedTexts({ texts, remove }: { texts: string[]; remove: (index: number) => void }) {
  const [opened, setOpened] = useState(-1);
  const shown = texts[opened];
  if (texts.length === 0) return null;
  return (
    <div className="mb-2">
      {shown !== undefined && <pre tabIndex={0} className="mb-1 max-h-40 overflow-auto rounded-row border bg-code px-2 py-1 leading-5 whitespace-pre-wrap [overflow-wrap:anywhere]"><SafeText text={shown.slice(0, PREVIEW_CHARS)} />{shown.length > PREVIEW_CHARS && ` ${strings.diff.longLine(shown.length - PREVIEW_CHARS)}`}</pre>}
      <ul aria-label={strings.composer.pasted} className="flex flex-wrap gap-1">
        {texts.map((text, index) => (
          <li key={index} className="flex items-center rounded-row border bg-code pl-1.5 text-12">
            <Icon name="file" size={12} className="text-t3" />
            <Button kind="quiet" small aria-expanded={index === opened} onClick={() => setOpened(index === opened ? -1 : index)}>{strings.composer.pastedText(text.split("\n").length, bytes(new Blob([text]).size))}</Button>
            <IconButton icon="cross" size={10} label={strings.composer.removePasted(index + 1)} onClick={() => { setOpened(-1); remove(index); }} />
          </li>
        ))}
      </ul>
    </div>
  );
}

// The message field. It is never disabled, and its text is stored.
import { type ClipboardEvent, type KeyboardEvent, type RefObject, useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { type Schemas, get } from "../../api/http_client";
import type { SessionStream } from "../../api/session_stream";
import type { FileMark } from "../../fold/view_types";
import { IconButton } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { ProblemLine } from "../../shared/error_message";
import { pathPattern } from "../../shared/typed_path_glob";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { useSessionContext, useView } from "./session_context";
import { keepDraft, readDraft } from "./unsent_drafts";
import { MAX_TYPED_CHARS, PastedTexts, usePasted } from "./pasted_texts";
import { Tray } from "./queued_messages";

const KEEP_MS = 200;
const STOP_WINDOW_MS = 1500;
const MAX_SUGGESTIONS = 8;
export type SessionCommand = { name: string; title: string; run: () => void };
type Suggestion = { label: string; detail: string; pick: () => void };

export function Composer({ commands }: { commands: SessionCommand[] }) {
  const { id, stream, canWrite, readOnlyReason } = useSessionContext();
  const view = useView();
  const area = useRef<HTMLTextAreaElement>(null);
  const [error, setError] = useState<unknown>(null);
  const [stopHint, setStopHint] = useState(false);
  const escapedAt = useRef(0);
  const { suggestions, at, setAt, update, close } = useSuggestions(stream, area, commands);
  useDraft(id, area);
  const [pasted, setPasted] = usePasted(id);
  const isWorking = view.run !== "";

  async function sendText(next: boolean) {
    const field = area.current;
    const typed = field?.value.trim() ?? "";
    const text = [typed, ...pasted].filter(Boolean).join("\n\n");
    if (!field || !text) return;
    setError(null);
    stream.refusal = null;
    try {
      field.value = "";
      grow(field);
      keepDraft(id, "");
      setPasted([]);
      await stream.give(isWorking && !next ? { type: "message", text } : { type: "prompt", text });
    } catch (failed) {
      putBack(id, field, typed); // a refusal keeps the text
      setPasted(pasted);
      setError(failed);
    }
  }

  function onKey(event: KeyboardEvent<HTMLTextAreaElement>) {
    if (event.nativeEvent.isComposing || event.keyCode === 229) return;
    const open = suggestions.length > 0;
    if (open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      setAt((at + (event.key === "ArrowDown" ? 1 : suggestions.length - 1)) % suggestions.length);
    } else if (open && (event.key === "Enter" || event.key === "Tab") && !event.shiftKey) {
      event.preventDefault();
      suggestions[at]?.pick();
      close();
    } else if (event.key === "Escape") {
      if (open) return close();
      if (!isWorking) return;
      if (event.timeStamp - escapedAt.current < STOP_WINDOW_MS) {
        setStopHint(false);
        void stream.give({ type: "cancel" }).catch(setError);
      } else {
        setStopHint(true);
        setTimeout(() => setStopHint(false), STOP_WINDOW_MS);
      }
      escapedAt.current = event.timeStamp;
    } else if (event.key === "ArrowUp" && !event.currentTarget.value && pasted.length === 0) {
      const last = [...document.querySelectorAll<HTMLElement>("[data-take-back]")].at(-1);
      if (last) event.preventDefault();
      last?.click();
    } else if (event.key === "Enter" && !event.shiftKey && !matchMedia("(pointer: coarse)").matches) {
      event.preventDefault();
      void sendText(event.ctrlKey || event.metaKey);
    }
  }

  function onPaste(event: ClipboardEvent) {
    const text = event.clipboardData.getData("text/plain");
    if (text.length <= MAX_TYPED_CHARS) return;
    event.preventDefault();
    setPasted([...pasted, text]);
  }

  const takeBack = (text: string) => {
    if (!area.current) return;
    putBack(id, area.current, text);
    area.current.focus();
  };
  const refused = stream.refusedText;
  useEffect(() => {
    if (!refused || !area.current) return;
    stream.refusedText = "";
    putBack(id, area.current, refused); // the focus stays where it is
  }, [id, stream, refused]);

  if (!canWrite) return <p className="border-t px-3 py-2 text-t2">{readOnlyReason ?? strings.session.watching}</p>;
  if (view.state === "ended") return <EndedNote />;
  const waiting = stream.connection.waiting;
  const unsent = waiting > 0 ? stream.unsent.flatMap((each) => ("text" in each ? [each.text] : [])) : [];
  return (
    <div className="relative shrink-0 border-t bg-panel p-3 pt-2">
      {suggestions.length > 0 && <Suggestions suggestions={suggestions} at={at} onPick={(index) => { suggestions[index]?.pick(); close(); }} />}
      {(error ?? stream.refusal) !== null && <div className="mb-2"><ProblemLine error={error ?? stream.refusal} /></div>}
      <Tray edit={takeBack} />
      {waiting > 0 && <p className="meta mb-1" role="status">{strings.composer.waiting(waiting)}</p>}
      {unsent.length > 0 && <ul className="mb-2 max-h-28 overflow-auto rounded-row border">{unsent.map((text, index) => <li key={index} className="truncate px-2 py-1 text-12"><SafeText text={text} /></li>)}</ul>}
      <PastedTexts texts={pasted} remove={(index) => setPasted(pasted.filter((_, each) => each !== index))} />
      <div className="flex items-end gap-1 rounded-card border border-edge bg-panel p-1 focus-within:outline-2 focus-within:outline-offset-1 focus-within:outline-[var(--focus)]">
        <textarea ref={area} rows={1} data-composer aria-label={strings.composer.label} placeholder={strings.composer.hint} onKeyDown={onKey} onPaste={onPaste} onInput={(event) => { grow(event.currentTarget); update(); }} onClick={update} className="max-h-[232px] min-w-0 grow resize-none bg-transparent px-2 py-1 text-14 outline-none pointer-coarse:py-[11px]" aria-autocomplete="list" {...(suggestions.length > 0 ? { "aria-controls": "composer-list", "aria-activedescendant": `suggestion-${at}` } : {})} />
        <IconButton icon="send" label={strings.composer.send} onClick={() => void sendText(false)} className="mb-0.5" />
      </div>
      <p className="meta mt-1">{stopHint ? <span className="text-warn">{strings.composer.stopHint}</span> : <><span className="pointer-coarse:hidden">{isWorking ? strings.composer.sendMessage : view.state === "parked" ? strings.session.wake : strings.composer.sendPrompt}</span><span className="hidden pointer-coarse:inline">{isWorking ? strings.composer.touchMessage : view.state === "parked" ? strings.session.wake : strings.composer.touchPrompt}</span></>}</p>
    </div>
  );
}

/** Put a text that was sent before above what was typed since. */
function putBack(id: string, field: HTMLTextAreaElement, text: string): void {
  field.value = [text, field.value].filter(Boolean).join("\n");
  grow(field);
  keepDraft(id, field.value);
}

/** The actions on a session that has ended. */
function EndedNote() {
  const { id } = useSessionContext();
  return (
    <p className="flex flex-wrap gap-x-3 gap-y-1 border-t px-3 py-2 text-t2">
      {strings.session.endedNote}
      <Link href={`/s/${id}/play`} className="text-link underline">{strings.palette.play}</Link>
      <a href={`/api/v1/sessions/${id}/record`} download className="text-link underline">{strings.session.export}</a>
    </p>
  );
}

function grow(field: HTMLTextAreaElement): void {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

function useDraft(id: string, area: RefObject<HTMLTextAreaElement | null>): void {
  useEffect(() => {
    const field = area.current;
    if (!field) return;
    field.value = readDraft(id);
    grow(field);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const keep = () => {
      clearTimeout(timer);
      timer = setTimeout(() => keepDraft(id, field.value), KEEP_MS);
    };
    const fromOtherTab = (event: StorageEvent) => {
      if (event.key === `hutch.draft.${id}` && document.activeElement !== field) {
        field.value = event.newValue ?? "";
        grow(field);
      }
    };
    const now = () => keepDraft(id, field.value);
    field.addEventListener("input", keep);
    window.addEventListener("storage", fromOtherTab);
    window.addEventListener("pagehide", now);
    return () => {
      clearTimeout(timer);
      now();
      field.removeEventListener("input", keep);
      window.removeEventListener("storage", fromOtherTab);
      window.removeEventListener("pagehide", now);
    };
  }, [id, area]);
}

/** Files whose name begins with the word first, of these the ones that were changed last, then short paths. */
function nearest(paths: string[], word: string, changed: Readonly<Record<string, FileMark>>): string[] {
  const begins = (path: string) => Number((path.split("/").pop() ?? "").toLowerCase().startsWith(word.toLowerCase()));
  const seq = (path: string) => changed[path]?.seq ?? 0;
  return paths.toSorted((a, b) => begins(b) - begins(a) || seq(b) - seq(a) || a.length - b.length || a.localeCompare(b)).slice(0, MAX_SUGGESTIONS);
}

function useSuggestions(stream: SessionStream, area: RefObject<HTMLTextAreaElement | null>, commands: SessionCommand[]) {
  const { id } = stream;
  const [suggestions, setSuggestions] = useState<Suggestion[]>([]);
  const [at, setAt] = useState(0);
  const requestNumber = useRef(0);
  const close = () => {
    requestNumber.current += 1;
    setSuggestions([]);
  };
  const update = () => {
    const field = area.current;
    if (!field) return;
    const before = field.value.slice(0, field.selectionStart);
    const found = /(^|\s)([@/])([^\s@]*)$/.exec(before);
    if (!found || (found[2] === "/" && before.trimStart() !== before.slice(before.lastIndexOf("/")))) return close();
    const word = found[3] ?? "";
    const replace = (text: string) => {
      const start = before.length - word.length - 1;
      field.setRangeText(text, start, before.length, "end");
      field.dispatchEvent(new Event("input", { bubbles: true }));
    };
    setAt(0);
    if (found[2] === "/") {
      setSuggestions(commands.filter((each) => each.name.startsWith(word.toLowerCase())).map((each) => ({ label: `/${each.name}`, detail: each.title, pick: () => { replace(""); each.run(); } })));
      return;
    }
    const request = (requestNumber.current += 1);
    get<Schemas["Paths"]>(`/sessions/${id}/glob?limit=200&pattern=${encodeURIComponent(pathPattern(word))}`).then(
      (result) => request === requestNumber.current && setSuggestions(nearest(result.paths, word, stream.view.files).map((path) => ({ label: path, detail: "", pick: () => replace(`@${path} `) }))),
      () => request === requestNumber.current && setSuggestions([]), // no list is no error: the text can be typed
    );
  };
  return { suggestions, at, setAt, update, close };
}

function Suggestions({ suggestions, at, onPick }: { suggestions: Suggestion[]; at: number; onPick: (index: number) => void }) {
  return (
    <ul id="composer-list" role="listbox" aria-label={strings.composer.files} className="appear absolute inset-x-3 bottom-full z-20 mb-1 max-h-60 overflow-auto rounded-card border bg-raised p-1 shadow-menu">
      {suggestions.map((each, index) => (
        <li key={each.label} id={`suggestion-${index}`} role="option" aria-selected={index === at} onPointerDown={(event) => { event.preventDefault(); onPick(index); }} className={`flex h-7 items-center gap-2 rounded-row px-2 ${index === at ? "bg-selected" : "hover:bg-hover"}`}>
          <Icon name={each.label.startsWith("/") ? "chevron" : "file"} size={14} className="text-t3" />
          <code className="min-w-0 truncate"><SafeText text={each.label} /></code>
          <span className="truncate text-12 text-t3">{each.detail}</span>
        </li>
      ))}
    </ul>
  );
}

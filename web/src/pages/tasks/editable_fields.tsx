// Fields that are edited in place: Enter or leaving them stores, Escape restores.
import { type ReactNode, useId, useState } from "react";
import { Field, IconButton } from "../../shared/form_controls";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/tasks";

export function Row({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="flex min-h-8 items-start gap-2 py-0.5">
      <dt className="flex min-h-7 w-24 shrink-0 items-center text-12 text-t3">{text.fields[name]}</dt>
      <dd className="flex min-h-7 min-w-0 grow flex-wrap items-center gap-1">{children}</dd>
    </div>
  );
}

/** A short text. Typed text stays when another user changes the field; storing it then shows the conflict. */
export function TextField({ name, value, hint = "", options = [], mayWrite, store }: { name: string; value: string; hint?: string; options?: string[]; mayWrite: boolean; store: (value: string) => void }) {
  const [typed, setTyped] = useState<string | null>(null);
  const list = useId();
  const label = text.fields[name] ?? name;
  if (!mayWrite) return value ? <SafeText text={value} /> : <span className="text-t3">{text.page.none}</span>;
  function leave() {
    if (typed !== null && typed.trim() !== value) store(typed.trim());
    setTyped(null);
  }
  return (
    <>
      <Field aria-label={label} value={typed ?? value} placeholder={hint} {...(options.length > 0 ? { list } : {})} onChange={(event) => setTyped(event.target.value)} onBlur={leave} className="w-full max-w-56 -ml-2 not-focus:border-transparent not-focus:bg-transparent hover:border-edge"
        onKeyDown={(event) => {
          if (event.nativeEvent.isComposing) return;
          if (event.key === "Enter") event.currentTarget.blur();
          if (event.key === "Escape") setTyped(null);
        }} />
      {options.length > 0 && <datalist id={list}>{options.map((each) => <option key={each} value={each} />)}</datalist>}
    </>
  );
}

/** Names with a field for one more. */
export function NamesField({ names, show, add, remove, hint, options = [], mayWrite, store }: { names: string[]; show?: (name: string) => ReactNode; add: string; remove: (name: string) => string; hint?: string; options?: string[]; mayWrite: boolean; store: (names: string[]) => void }) {
  const [typed, setTyped] = useState("");
  const list = useId();
  function take() {
    const more = typed.split(/[\s,]+/).map((each) => each.replace(/^#(?!\d)/, "")).filter((each) => each && !names.includes(each));
    if (more.length > 0) store([...names, ...more].sort());
    setTyped("");
  }
  return (
    <>
      {names.length === 0 && !mayWrite && <span className="text-t3">{text.page.none}</span>}
      {names.map((name) => (
        <span key={name} className="inline-flex h-6 max-w-full items-center rounded-row border bg-panel pl-1.5 text-12 text-t2 pointer-coarse:h-11">
          <span className="min-w-0 truncate">{show ? show(name) : <SafeText text={name} />}</span>
          {mayWrite ? <IconButton icon="cross" size={10} label={remove(name)} onClick={() => store(names.filter((each) => each !== name))} /> : <span className="pr-1.5" />}
        </span>
      ))}
      {mayWrite && <Field small aria-label={add} placeholder={hint ?? add} value={typed} {...(options.length > 0 ? { list } : {})} onChange={(event) => setTyped(event.target.value)} onBlur={take} className={`not-focus:border-transparent not-focus:bg-transparent hover:border-edge w-28 ${names.length === 0 ? "-ml-2" : ""}`}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.nativeEvent.isComposing) take();
          if (event.key === "Escape") setTyped("");
        }} />}
      {options.length > 0 && <datalist id={list}>{options.map((each) => <option key={each} value={each} />)}</datalist>}
    </>
  );
}

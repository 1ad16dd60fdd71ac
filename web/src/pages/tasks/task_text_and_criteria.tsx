// The title, the description and the acceptance criteria of a task.
import { useEffect, useRef, useState } from "react";
import { Button, IconButton } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { Markdown } from "../../shared/markdown";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/tasks";
import { keepDraft, readDraft } from "../session/unsent_drafts";
import type { Criterion, Task } from "./task_values_filter_and_order";
import { changeTask } from "./unsent_task_changes";

type Props = { task: Task; mayWrite: boolean };

export function TaskTitle({ task, mayWrite }: Props) {
  const [typed, setTyped] = useState<string | null>(null);
  const [base, setBase] = useState(task); // as it was when the edit began
  const field = useRef<HTMLTextAreaElement>(null);
  const isOpen = typed !== null;
  useEffect(() => {
    if (isOpen) field.current?.select();
  }, [isOpen]);
  function store() {
    if (typed?.trim()) changeTask(base, { title: typed.replace(/\s+/g, " ").trim() });
    setTyped(null);
  }
  if (typed !== null) {
    return <textarea ref={field} rows={2} aria-label={text.fields["title"]} value={typed} onChange={(event) => setTyped(event.target.value)} onBlur={store} className="w-full resize-none rounded-row border border-edge bg-panel px-1 text-20 font-semibold"
      onKeyDown={(event) => {
        if (event.nativeEvent.isComposing) return;
        if (event.key === "Enter") { event.preventDefault(); store(); }
        if (event.key === "Escape") setTyped(null);
      }} />;
  }
  return (
    <div className="flex items-start gap-2">
      <h1 className="min-w-0 text-20 font-semibold break-words"><SafeText text={task.fields.title} /></h1>
      {mayWrite && <IconButton icon="edit" label={text.page.editField(text.fields["title"] ?? "")} onClick={() => { setBase(task); setTyped(task.fields.title); }} />}
    </div>
  );
}

/** A change is compared with the text that stood here when the edit began. The draft survives a reload. */
export function TaskDescription({ task, mayWrite }: Props) {
  const name = `task.${task.id}`;
  const [typed, setTyped] = useState<string | null>(() => readDraft(name) || null);
  const [base, setBase] = useState(task);
  const change = (next: string | null) => {
    setTyped(next);
    keepDraft(name, next ?? "");
  };
  function store() {
    if (typed !== null) changeTask(base, { description: typed });
    change(null);
  }
  return (
    <section aria-label={text.fields["description"]} className="mt-4">
      <div className="flex items-center gap-2">
        <h2 className="text-12 font-semibold text-t2">{text.fields["description"]}</h2>
        {mayWrite && typed === null && <IconButton icon="edit" label={text.page.editField(text.fields["description"] ?? "")} onClick={() => { setBase(task); change(task.description || " "); }} />}
      </div>
      {typed !== null ? (
        <div className="mt-1">
          <textarea autoFocus rows={Math.min(24, Math.max(6, typed.split("\n").length + 1))} aria-label={text.fields["description"]} value={typed} onChange={(event) => change(event.target.value)} className="w-full resize-y rounded-row border border-edge bg-panel p-2 font-mono text-12"
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); store(); }
              if (event.key === "Escape") setTyped(null);
            }} />
          <div className="mt-1 flex flex-wrap items-center gap-2">
            <Button kind="primary" small onClick={store}>{text.page.save}</Button>
            <Button kind="quiet" small onClick={() => change(null)}>{text.page.cancel}</Button>
            <span className="meta">{text.page.markdown}</span>
          </div>
        </div>
      ) : task.description.trim() ? <Markdown text={task.description} /> : <p className="text-t3">{text.page.noDescription}</p>}
    </section>
  );
}

export function TaskCriteria({ task, mayWrite }: Props) {
  const [typed, setTyped] = useState("");
  const { criteria } = task.fields;
  const store = (next: Criterion[]) => changeTask(task, { criteria: next });
  function add() {
    const more = typed.split(/\r?\n/).map((each) => each.replace(/^\s*(?:[-*+]\s+)?(?:\[[ xX]\]\s*)?/, "").trim()).filter((each) => each && !criteria.some((other) => other.text === each));
    if (more.length > 0) store([...criteria, ...more.map((each) => ({ text: each, done: false }))]);
    setTyped("");
  }
  const done = criteria.filter((each) => each.done).length;
  return (
    <section aria-label={text.fields["criteria"]} className="mt-4">
      <h2 className="flex items-center gap-2 text-12 font-semibold text-t2">{text.fields["criteria"]}{criteria.length > 0 && <span className="font-normal text-t3">{done}/{criteria.length}</span>}</h2>
      {criteria.length > 0 && <div aria-hidden="true" className="mt-1 h-1 overflow-hidden rounded-full bg-hover"><div className="h-full rounded-full bg-ok" style={{ width: `${(done / criteria.length) * 100}%` }} /></div>}
      <ul className="mt-1">
        {criteria.map((each, at) => (
          <li key={`${at}:${each.text}`} className="group fade flex items-start gap-2 rounded-row hover:bg-hover">
            <label className="flex min-w-0 grow items-start gap-2 py-1 pointer-coarse:py-3">
              <input type="checkbox" checked={each.done} disabled={!mayWrite} onChange={() => store(criteria.map((other, index) => (index === at ? { ...other, done: !other.done } : other)))} className="mt-0.5 size-4 shrink-0 accent-accent" />
              <span className={`min-w-0 break-words ${each.done ? "text-t2" : ""}`}><SafeText text={each.text} /></span>
            </label>
            {mayWrite && <IconButton icon="cross" size={12} label={text.page.removeCriterion(each.text)} onClick={() => store(criteria.filter((_, index) => index !== at))} />}
          </li>
        ))}
      </ul>
      {criteria.length === 0 && <p className="text-t3">{text.page.noCriteria}</p>}
      {mayWrite && (
        <div className="mt-1 flex items-center gap-2">
          <Icon name="plus" size={14} className="text-t3" />
          <textarea rows={1} value={typed} aria-label={text.page.addCriterion} placeholder={text.page.addCriterion} onChange={(event) => setTyped(event.target.value)} className="h-7 min-w-0 grow resize-none rounded-row border border-edge bg-panel px-2 py-1 text-13 pointer-coarse:h-11"
            onKeyDown={(event) => {
              if (event.key === "Enter" && !event.nativeEvent.isComposing) { event.preventDefault(); add(); }
              if (event.key === "Escape") setTyped("");
            }} />
        </div>
      )}
    </section>
  );
}

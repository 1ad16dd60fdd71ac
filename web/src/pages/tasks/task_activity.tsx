// The history of a task: changes of fields, comments, the progress log, and conflicts with its file.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { send } from "../../api/http_client";
import { ago } from "../../display_format";
import { useNow } from "../../shared/current_time";
import { ProblemLine } from "../../shared/error_message";
import { Button } from "../../shared/form_controls";
import { Icon, type IconName } from "../../shared/icons";
import { Markdown } from "../../shared/markdown";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/tasks";
import { keepDraft, readDraft } from "../session/unsent_drafts";
import { valueText } from "./concurrent_edit_conflict_dialog";
import { useTaskHistory } from "./task_queries";
import type { Task, TaskEvent } from "./task_values_filter_and_order";

const LONG = new Set(["description", "criteria"]);
const MAX_VALUE_CHARS = 80;
const ICONS: Record<TaskEvent["kind"], IconName> = { created: "plus", changed: "edit", archived: "folder", restored: "undo", comment: "interview", progress: "play", conflict: "ask" };
type Kind = "all" | "comments" | "progress";

export function TaskActivity({ task, names, mayWrite }: { task: Task; names: ReadonlyMap<string, string>; mayWrite: boolean }) {
  const [kind, setKind] = useState<Kind>("all");
  const history = useTaskHistory(task.id, task.revision);
  const events = (history.data ?? []).filter((each) => kind === "all" || each.kind === (kind === "comments" ? "comment" : "progress"));
  return (
    <section aria-label={text.page.activity} className="min-w-0">
      <div className="flex flex-wrap items-center gap-2">
        <h2 className="text-12 font-semibold text-t2">{text.page.activity}</h2>
        <div role="group" aria-label={text.page.activity} className="flex gap-1">
          {(["all", "comments", "progress"] as const).map((each) => <Button key={each} small kind="quiet" aria-pressed={kind === each} className={kind === each ? "bg-selected text-t1" : ""} onClick={() => setKind(each)}>{text.page[each]}</Button>)}
        </div>
      </div>
      {history.isError && <ProblemLine error={history.error} retry={() => void history.refetch()} />}
      {history.isSuccess && events.length === 0 && <p className="mt-1 text-t3">{text.page.nothingYet}</p>}
      <ol className="mt-2">{events.map((each) => <Event key={each.id} event={each} who={names.get(each.by) ?? (each.by_name || text.page.somebody)} />)}</ol>
      {mayWrite && <NewComment task={task} />}
    </section>
  );
}

function Event({ event, who }: { event: TaskEvent; who: string }) {
  const now = useNow();
  const isText = event.kind === "comment" || event.kind === "progress";
  const words: Record<TaskEvent["kind"], string> = { created: text.page.created, changed: "", archived: text.page.archivedIt, restored: text.page.restoredIt, comment: text.page.commentBy, progress: text.page.progressBy, conflict: "" };
  const changes = event.kind === "archived" || event.kind === "restored" ? [] : Object.entries(event.changes);
  return (
    <li className="relative flex gap-2 pb-2 before:absolute before:top-5 before:bottom-0 before:left-[7px] before:w-px before:bg-line last:before:hidden">
      <Icon name={ICONS[event.kind]} size={14} className={`z-10 mt-1 bg-frame ${event.kind === "conflict" ? "text-warn" : "text-t3"}`} />
      <div className="min-w-0 grow">
        <p className="text-12 break-words text-t2">
          {event.kind === "conflict" ? <span className="text-warn">{text.page.conflictBy}</span> : <span className="font-semibold text-t1"><SafeText text={who} /></span>} {words[event.kind]}
          {changes.map(([field, values], at) => <span key={field}>{at > 0 || words[event.kind] ? "; " : " "}<Change field={field} values={values} /></span>)}
          {!isText && event.note && <span className="text-t3"> · <SafeText text={event.note} /></span>}
          <time className="ml-2 whitespace-nowrap text-t3" title={new Date(event.at_ms).toLocaleString("en-GB")}>{ago(event.at_ms, now)}</time>
        </p>
        {isText && <div className={`mt-1 rounded-card border bg-panel px-3 py-2 ${event.kind === "progress" ? "border-l-2 border-l-info" : ""}`}><Markdown text={event.note} /></div>}
      </div>
    </li>
  );
}

function Change({ field, values }: { field: string; values: unknown }) {
  const name = (text.fields[field] ?? field).toLowerCase();
  const [old, next] = Array.isArray(values) ? values : ["", values];
  if (LONG.has(field)) return text.page.changedLong(name);
  return <SafeText text={text.page.changed(name, valueText(field, old).slice(0, MAX_VALUE_CHARS), valueText(field, next).slice(0, MAX_VALUE_CHARS))} />;
}

function NewComment({ task }: { task: Task }) {
  const name = `comment.${task.id}`;
  const [typed, setTyped] = useState(() => readDraft(name));
  const [isProgress, setProgress] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [id, setId] = useState(newKey); // the same comment sent again is one comment
  const queries = useQueryClient();
  const change = (next: string) => {
    setTyped(next);
    keepDraft(name, next);
  };
  async function store() {
    if (!typed.trim() || busy) return;
    setBusy(true);
    setError(null);
    try {
      await send(`/tasks/${task.id}/comments`, { method: "POST", body: { text: typed, progress: isProgress }, headers: { "Idempotency-Key": id } });
      change("");
      setId(newKey());
      await queries.invalidateQueries({ queryKey: ["tasks", "history", task.id] });
    } catch (failed) {
      setError(failed);
    } finally {
      setBusy(false);
    }
  }
  return (
    <div className="mt-2 rounded-card border bg-panel p-2">
      <textarea rows={2} value={typed} aria-label={text.page.commentHint} placeholder={text.page.commentHint} onChange={(event) => { change(event.target.value); setId(newKey()); }} className="w-full resize-y rounded-row border border-edge bg-panel p-1.5 text-13"
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); void store(); }
        }} />
      {error !== null && <div className="mt-1"><ProblemLine error={error} retry={() => void store()} /></div>}
      <div className="mt-1 flex flex-wrap items-center gap-3">
        <label className="flex items-center gap-1.5 text-12 text-t2"><input type="checkbox" checked={isProgress} onChange={(event) => setProgress(event.target.checked)} className="accent-accent" />{text.page.asProgress}</label>
        <span className="grow" />
        <Button small disabled={!typed.trim() || busy} onClick={() => void store()}>{text.page.comment}</Button>
      </div>
    </div>
  );
}

const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

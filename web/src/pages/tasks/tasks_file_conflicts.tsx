// Fields that TASKS.md and the board have both changed. The file's value was used; a person confirms it or takes the other.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { post } from "../../api/http_client";
import { ProblemLine } from "../../shared/error_message";
import { Button } from "../../shared/form_controls";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/tasks";
import { valueText } from "./concurrent_edit_conflict_dialog";
import { useTaskHistory } from "./task_queries";
import type { Task, TaskEvent, TaskValues } from "./task_values_filter_and_order";
import { changeTask } from "./unsent_task_changes";

const SCALARS = new Set(["title", "state", "owner", "priority", "estimate", "milestone"]);

export type FileConflict = { id: number; field: string; stored: string; file: string };

/** Open conflicts: the field was not changed, nor the file's value confirmed, since. */
export function openConflicts(events: readonly TaskEvent[]): FileConflict[] {
  const open = new Map<string, FileConflict>();
  for (const event of events) {
    for (const [field, values] of Object.entries(event.changes)) {
      if (event.kind !== "conflict") open.delete(field);
      else if (SCALARS.has(field) && Array.isArray(values)) open.set(field, { id: event.id, field, stored: String(values[0] ?? ""), file: String(values[1] ?? "") });
    }
    if (event.kind === "comment") for (const field of [...open.keys()]) if (event.note === text.file.confirmed(text.fields[field] ?? field)) open.delete(field);
  }
  return [...open.values()];
}

export function FileConflicts({ task, mayWrite }: { task: Task; mayWrite: boolean }) {
  const history = useTaskHistory(task.id, task.revision);
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const open = openConflicts(history.data ?? []);
  if (open.length === 0) return null;
  async function confirm(field: string) {
    setError(null);
    try {
      await post(`/tasks/${task.id}/comments`, { text: text.file.confirmed(text.fields[field] ?? field) });
      await queries.invalidateQueries({ queryKey: ["tasks", "history", task.id] });
    } catch (failed) {
      setError(failed);
    }
  }
  return (
    <section aria-label={text.file.title} className="border-b bg-warn-tint px-3 py-2">
      <h2 className="font-semibold text-warn">{text.file.title}</h2>
      <ul>
        {open.map((each) => (
          <li key={each.field} className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-1">
            <span className="min-w-0 break-words"><span className="font-semibold">{text.fields[each.field] ?? each.field}</span>: <SafeText text={text.file.values(valueText(each.field, each.file), valueText(each.field, each.stored))} /></span>
            {mayWrite && <Button small onClick={() => changeTask(task, { [each.field]: each.stored } as TaskValues)}>{text.file.useStored}</Button>}
            {mayWrite && <Button small kind="quiet" onClick={() => void confirm(each.field)}>{text.file.keepFile}</Button>}
          </li>
        ))}
      </ul>
      {error !== null && <div className="mt-1"><ProblemLine error={error} /></div>}
    </section>
  );
}

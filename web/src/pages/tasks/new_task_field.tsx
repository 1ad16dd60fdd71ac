// A new task in one line. The field stays open for the next one; Escape closes it and keeps the text.
import { useEffect, useRef, useState } from "react";
import { Button } from "../../shared/form_controls";
import { text } from "../../strings/tasks";
import { keepDraft, readDraft } from "../session/unsent_drafts";
import { announce } from "./task_move_announcer";
import type { TaskState } from "./task_values_filter_and_order";
import { addTask } from "./unsent_task_changes";

const DRAFT = "new-task";
const MAX_TITLE_CHARS = 1000;

export function QuickAdd({ state, repository, onClose }: { state: TaskState; repository: string; onClose: () => void }) {
  const [title, setTitle] = useState(() => readDraft(DRAFT));
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const change = (next: string) => {
    setTitle(next);
    keepDraft(DRAFT, next);
  };
  function add() {
    const lines = title.split(/\r?\n/).map((each) => each.trim()).filter(Boolean); // a pasted list is one task for each line
    for (const each of lines) {
      addTask({ repository, title: each.slice(0, MAX_TITLE_CHARS), state, key: "", description: "", owner: "", priority: "", estimate: "", milestone: "" });
      announce(text.speech.added(each));
    }
    change("");
    field.current?.focus();
  }
  return (
    <form onSubmit={(event) => { event.preventDefault(); add(); }} className="rounded-card border border-accent bg-panel p-2">
      <textarea ref={field} rows={2} value={title} aria-label={text.new} placeholder={text.newHint} onChange={(event) => change(event.target.value)} className="w-full resize-none rounded-row border border-edge bg-panel p-1.5 text-13"
        onKeyDown={(event) => {
          if (event.nativeEvent.isComposing) return;
          if (event.key === "Enter" && !event.shiftKey) {
            event.preventDefault();
            add();
          } else if (event.key === "Escape") {
            event.stopPropagation();
            onClose();
          }
        }} />
      <div className="mt-1 flex items-center gap-2">
        <span className="meta min-w-0 grow truncate" title={repository}>{repository || text.noRepository}</span>
        <Button kind="quiet" small onClick={onClose}>{text.page.cancel}</Button>
        <Button type="submit" kind="primary" small disabled={!title.trim()}>{text.add}</Button>
      </div>
    </form>
  );
}

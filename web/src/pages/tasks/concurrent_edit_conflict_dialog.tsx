// The user's change beside the values that another user has stored meanwhile; the user chooses for each field.
import { useState } from "react";
import { Button } from "../../shared/form_controls";
import { Dialog } from "../../shared/dialog";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/tasks";
import { type TaskValues, valueOf } from "./task_values_filter_and_order";
import { type UnsentChange, resolveConflict } from "./unsent_task_changes";

type Choice = "mine" | "theirs";

export function valueText(field: string, value: unknown): string {
  if (value === "" || value === null || value === undefined || (Array.isArray(value) && value.length === 0)) return "";
  if (field === "state") return text.states[String(value)] ?? String(value);
  if (field === "priority") return text.priorities[String(value)] ?? String(value);
  if (Array.isArray(value)) return value.map((each) => (typeof each === "object" && each !== null ? `${(each as { done?: boolean }).done ? "☑" : "☐"} ${String((each as { text?: string }).text ?? "")}` : String(each))).join(", ");
  return String(value);
}

export function ConflictDialog({ change, onClose }: { change: UnsentChange; onClose: () => void }) {
  const { theirs } = change;
  const [choices, setChoices] = useState<Record<string, Choice>>({});
  const [edited, setEdited] = useState<Record<string, string>>({});
  const fields = change.conflicts;
  if (!theirs) return null;
  const values = change.values as Record<string, unknown>;
  const isComplete = fields.every((field) => choices[field]);
  function save() {
    // Values without a conflict are always stored.
    const remaining = Object.entries(values).filter(([field]) => !fields.includes(field) || choices[field] === "mine").map(([field, value]) => [field, edited[field] ?? value]);
    resolveConflict(change, Object.fromEntries(remaining) as TaskValues);
    onClose();
  }
  return (
    <Dialog title={text.conflict.title} aside={`${theirs.key} · ${theirs.fields.title}`} onClose={onClose} wide>
      <p className="text-t2">{text.conflict.about(theirs.key)}</p>
      {fields.map((field) => (
        <fieldset key={field} className="mt-3">
          <legend className="text-12 font-semibold text-t2">{text.fields[field] ?? field}</legend>
          <div className="mt-1 grid grid-cols-2 gap-2 max-sm:grid-cols-1">
            <Side name={`${field}-choice`} title={text.conflict.yours} action={text.conflict.useMine} checked={choices[field] === "mine"} pick={() => setChoices({ ...choices, [field]: "mine" })}>
              {field === "description" || field === "title"
                ? <textarea rows={field === "title" ? 2 : 8} aria-label={`${text.conflict.yours}: ${text.fields[field] ?? field}`} value={edited[field] ?? String(values[field] ?? "")} onFocus={() => setChoices({ ...choices, [field]: "mine" })} onChange={(event) => setEdited({ ...edited, [field]: event.target.value })} className="w-full resize-y rounded-row border border-edge bg-panel p-1.5 text-13" />
                : <Shown words={valueText(field, values[field])} />}
            </Side>
            <Side name={`${field}-choice`} title={text.conflict.theirs} action={text.conflict.keepTheirs} checked={choices[field] === "theirs"} pick={() => setChoices({ ...choices, [field]: "theirs" })}>
              <Shown words={valueText(field, valueOf(theirs, field))} />
            </Side>
          </div>
        </fieldset>
      ))}
      <div className="mt-4 flex items-center justify-end gap-2">
        <Button kind="quiet" onClick={onClose}>{text.page.cancel}</Button>
        <Button kind="primary" disabled={!isComplete} onClick={save}>{text.page.save}</Button>
      </div>
    </Dialog>
  );
}

function Side({ name, title, action, checked, pick, children }: { name: string; title: string; action: string; checked: boolean; pick: () => void; children: React.ReactNode }) {
  return (
    <div className={`rounded-card border p-2 ${checked ? "border-accent" : ""}`}>
      <label className="flex items-center gap-2"><input type="radio" name={name} checked={checked} onChange={pick} className="accent-accent" /><span className="font-semibold">{action}</span><span className="meta">{title}</span></label>
      <div className="mt-2">{children}</div>
    </div>
  );
}

const Shown = ({ words }: { words: string }) => <p tabIndex={0} className="max-h-48 overflow-auto rounded-row bg-code p-1.5 break-words whitespace-pre-wrap">{words ? <SafeText text={words} /> : <span className="text-t3">{text.conflict.empty}</span>}</p>;

// The repository of a new task: one that is known, another one, or none.
import { useState } from "react";
import { Field } from "../../shared/form_controls";
import { text } from "../../strings/tasks";
import { Choice } from "./task_filters";

const OTHER = "…";

export function RepositoryChoice({ value, known, onChange }: { value: string; known: string[]; onChange: (value: string) => void }) {
  const [isOther, setOther] = useState(false);
  return (
    <div className="flex flex-wrap items-center gap-2">
      <Choice label={text.newRepository} value={isOther ? OTHER : value} className="max-w-full" onChange={(next) => { setOther(next === OTHER); onChange(next === OTHER ? "" : next); }} options={[["", text.noRepository], ...known.map((each): [string, string] => [each, each]), [OTHER, text.otherRepository]]} />
      {isOther && <Field value={value} aria-label={text.fields["repository"]} placeholder={text.repositoryHint} onChange={(event) => onChange(event.target.value)} className="min-w-48 grow font-mono text-12" />}
    </div>
  );
}

// The filters of board and list. They are in the address, so a view can be linked to.
import type { RefObject } from "react";
import { repositoryName } from "../../display_format";
import { Button, Field } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { text } from "../../strings/tasks";
import { type Filter, NOBODY, PRIORITIES, type Task, isFiltered } from "./task_values_filter_and_order";

type Props = { filter: Filter; tasks: Task[]; repositories: string[]; me: string; field: RefObject<HTMLInputElement | null>; set: (name: string, value: string) => void; clear: () => void };

export function TaskFilters({ filter, tasks, repositories, me, field, set, clear }: Props) {
  const owners = [...new Set(tasks.map((each) => each.fields.owner).filter((each) => each && each !== me))].sort();
  const labels = [...new Set(tasks.flatMap((each) => each.fields.labels))].sort();
  return (
    <>
      <label className="relative flex min-w-40 grow items-center sm:max-w-64">
        <Icon name="search" size={14} className="absolute left-2 text-t3" />
        <span className="sr-only">{text.filter}</span>
        <Field ref={field} type="search" value={filter.words} placeholder={text.filter} onChange={(event) => set("q", event.target.value)} className="w-full pl-7" aria-keyshortcuts="/" />
      </label>
      {(repositories.length > 1 || filter.repository) && <Choice label={text.fields["repository"] ?? ""} value={filter.repository} onChange={(value) => set("repository", value)} options={[["", text.anyRepository], ...named(repositories)]} />}
      <Choice label={text.fields["owner"] ?? ""} value={filter.owner} onChange={(value) => set("owner", value)} options={[["", text.anyOwner], [me, text.mine], [NOBODY, text.nobody], ...owners.map((each): [string, string] => [each, each])]} />
      {(labels.length > 0 || filter.label) && <Choice label={text.fields["labels"] ?? ""} value={filter.label} onChange={(value) => set("label", value)} options={[["", text.anyLabel], ...labels.map((each): [string, string] => [each, each])]} />}
      <Choice label={text.fields["priority"] ?? ""} value={filter.priority} onChange={(value) => set("priority", value)} options={[["", text.anyPriority], ...PRIORITIES.map((each): [string, string] => [each, text.priorities[each] ?? each])]} />
      {isFiltered(filter) && <Button kind="quiet" icon="cross" onClick={clear}>{text.clear}</Button>}
    </>
  );
}

/** Repositories by their last part, or whole where that is not enough. */
function named(repositories: string[]): [string, string][] {
  const short = repositories.map(repositoryName);
  return repositories.map((each, at) => [each, short.indexOf(short[at] ?? "") === short.lastIndexOf(short[at] ?? "") ? short[at] ?? each : each]);
}

export function Choice({ label, value, onChange, options, className = "" }: { label: string; value: string; onChange: (value: string) => void; options: [string, string][]; className?: string }) {
  const all = options.some(([key]) => key === value) ? options : [...options, [value, value] as [string, string]];
  return (
    <select aria-label={label} value={value} onChange={(event) => onChange(event.target.value)} className={`h-7 max-w-44 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1 pointer-coarse:h-11 ${className}`}>
      {all.map(([key, name]) => <option key={key} value={key}>{name}</option>)}
    </select>
  );
}

// All tasks in rows: dense, sorted by a column that the address names.
import { useState } from "react";
import { Link } from "wouter";
import { ago, repositoryName } from "../../display_format";
import { useNow } from "../../shared/current_time";
import { Badge, Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/tasks";
import { Tick } from "./task_card";
import { CriteriaCount, Label, Owner, PriorityMark, TaskStateMark } from "./task_badges";
import { type Sort, type Task, comparedBy } from "./task_values_filter_and_order";

const SHOWN = 200;
const MAX_LABELS = 3;
const COLUMNS: { sort: Sort; className: string }[] = [
  { sort: "key", className: "w-16" }, { sort: "title", className: "" }, { sort: "state", className: "w-28 max-sm:hidden" }, { sort: "priority", className: "w-24 max-md:hidden" }, { sort: "owner", className: "w-32 max-md:hidden" }, { sort: "updated", className: "w-24 max-sm:hidden" },
];

type Props = { tasks: Task[]; sort: Sort; isReversed: boolean; sortBy: (sort: Sort) => void; marks: ReadonlyMap<string, string>; withRepository: boolean; mayWrite: boolean; tick: (task: Task) => void };

export function TaskList({ tasks, sort, isReversed, sortBy, marks, withRepository, mayWrite, tick }: Props) {
  const [count, setCount] = useState(SHOWN);
  const now = useNow();
  const sorted = [...tasks].sort((one, other) => comparedBy(sort, one, other) * (isReversed ? -1 : 1));
  return (
    <div className="h-full overflow-auto pb-6">
      <table className="w-full table-fixed border-collapse text-left">
        <caption className="sr-only">{text.title}</caption>
        <thead className="sticky top-0 z-20 bg-frame">
          <tr className="border-b">
            <th className="w-9" scope="col"><span className="sr-only">{text.states["done"]}</span></th>
            {COLUMNS.map(({ sort: name, className }) => (
              <th key={name} scope="col" aria-sort={sort === name ? (isReversed ? "descending" : "ascending") : "none"} className={className}>
                <button type="button" onClick={() => sortBy(name)} className="inset-focus fade flex h-7 w-full items-center gap-1 px-1 text-11 font-semibold tracking-wide text-t2 uppercase hover:text-t1">
                  {text.fields[name]}
                  {sort === name && <Icon name="down" size={12} className={isReversed ? "rotate-180" : ""} />}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, count).map((task) => (
            <tr key={task.id} className="fade relative h-8 border-b bg-panel hover:bg-hover has-[a:focus-visible]:bg-hover pointer-coarse:h-11">
              <td className="pl-2"><Tick task={task} mayWrite={mayWrite} tick={tick} /></td>
              <td className="truncate px-1 text-12 text-t3">{task.key}</td>
              <td className="px-1">
                <span className="flex min-w-0 items-center gap-2">
                  <Link href={`/tasks/${task.id}`} data-row={task.id} className={`inset-focus min-w-0 truncate after:absolute after:inset-0 ${task.fields.state === "done" || task.fields.state === "cancelled" ? "text-t2" : "font-semibold"}`}><SafeText text={task.fields.title} /></Link>
                  <span className="sm:hidden"><TaskStateMark state={task.fields.state} word={false} /><span className="sr-only">{text.states[task.fields.state]}</span></span>
                  {marks.has(task.id) && <Badge tone="warn">{marks.get(task.id)}</Badge>}
                  <span className="flex shrink-0 gap-1 max-lg:hidden">{task.fields.labels.slice(0, MAX_LABELS).map((each) => <Label key={each} name={each} />)}</span>
                  <CriteriaCount task={task} />
                  {withRepository && task.repository && <span className="max-w-28 shrink-0 truncate text-12 text-t3 max-lg:hidden" title={task.repository}><SafeText text={repositoryName(task.repository)} /></span>}
                </span>
              </td>
              <td className="px-1 max-sm:hidden"><TaskStateMark state={task.fields.state} /></td>
              <td className="px-1 max-md:hidden"><PriorityMark priority={task.fields.priority} word /></td>
              <td className="px-1 max-md:hidden"><Owner name={task.fields.owner} /></td>
              <td className="px-1 text-12 text-t3 max-sm:hidden"><time>{ago(task.updated_ms, now)}</time></td>
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > count && <div className="p-2"><Button kind="quiet" onClick={() => setCount(count + SHOWN)}>{text.more(Math.min(SHOWN, sorted.length - count))}</Button></div>}
    </div>
  );
}

// A card of the board. The whole card opens the task; the box at its left ticks it.
import { memo } from "react";
import { Link } from "wouter";
import { repositoryName } from "../../display_format";
import { Badge } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/tasks";
import { CriteriaCount, Label, Owner, PriorityMark } from "./task_badges";
import type { Task } from "./task_values_filter_and_order";
import { NEW } from "./unsent_task_changes";

const MAX_LABELS = 3;

type Props = { task: Task; isPicked: boolean; isDragged: boolean; withRepository: boolean; waitsFor: string; mark: string; mayWrite: boolean; tick: (task: Task) => void; drag: (id: string) => void };

export const TaskCard = memo(function TaskCard({ task, isPicked, isDragged, withRepository, waitsFor, mark, mayWrite, tick, drag }: Props) {
  const { fields } = task;
  const ended = fields.state === "done" || fields.state === "cancelled";
  const isNew = task.id.startsWith(NEW);
  const sessions = task.links.filter((each) => each.kind === "session").length;
  return (
    <li draggable={mayWrite && !isNew} onDragStart={(event) => { event.dataTransfer.setData("text/plain", task.key); event.dataTransfer.effectAllowed = "move"; drag(task.id); }} onDragEnd={() => drag("")}
      className={`group fade relative flex gap-2 rounded-card border bg-panel p-2 hover:border-edge has-[a:focus-visible]:border-focus pointer-coarse:gap-0 ${isDragged ? "opacity-50" : ""} ${isPicked ? "border-dashed border-accent bg-selected" : ""}`}>
      <Tick task={task} mayWrite={mayWrite} tick={tick} />
      <div className="min-w-0 grow">
        <Link href={`/tasks/${task.id}`} data-row={task.id} draggable={false} aria-describedby="card-keys" {...(isPicked ? { "aria-current": true } : {})} className={`block text-13 break-words after:absolute after:inset-0 after:rounded-card focus-visible:outline-none focus-visible:after:outline-2 focus-visible:after:outline-focus ${ended ? "text-t2" : "text-t1"}`}>
          <SafeText text={fields.title} />
        </Link>
        {fields.labels.length > 0 && <div className="mt-1 flex flex-wrap gap-1">{fields.labels.slice(0, MAX_LABELS).map((each) => <Label key={each} name={each} />)}{fields.labels.length > MAX_LABELS && <span className="text-11 text-t3">+{fields.labels.length - MAX_LABELS}</span>}</div>}
        {waitsFor && <p className="mt-1 flex items-center gap-1 text-12 text-warn"><Icon name="pause" size={12} /><span className="min-w-0 truncate">{text.waitsFor(waitsFor)}</span></p>}
        <div className="mt-1 flex min-h-4 flex-wrap items-center gap-x-2 text-12 text-t3">
          <PriorityMark priority={fields.priority} />
          <span className="whitespace-nowrap">{task.key}</span>
          {withRepository && task.repository && <span className="max-w-28 truncate" title={task.repository}><SafeText text={repositoryName(task.repository)} /></span>}
          <CriteriaCount task={task} />
          {fields.estimate && <span className="truncate"><SafeText text={fields.estimate} /></span>}
          {sessions > 0 && <span className="inline-flex items-center gap-1 whitespace-nowrap" title={text.sessions(sessions)}><Icon name="list" size={12} />{sessions}<span className="sr-only">{text.sessions(sessions)}</span></span>}
          {mark && <Badge tone="warn">{mark}</Badge>}
          <span className="grow" />
          <Owner name={fields.owner} />
        </div>
      </div>
    </li>
  );
});

export function Tick({ task, mayWrite, tick }: { task: Task; mayWrite: boolean; tick: (task: Task) => void }) {
  return (
    <label className="relative z-10 grid size-6 shrink-0 place-items-center self-start pointer-coarse:-my-2 pointer-coarse:-ml-2 pointer-coarse:size-11">
      <input type="checkbox" checked={task.fields.state === "done"} disabled={!mayWrite} onChange={() => tick(task)} aria-label={text.tick(task.fields.title)} className="size-4 accent-accent" />
    </label>
  );
}

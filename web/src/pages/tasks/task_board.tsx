// The board: a column for each state. Cards are moved by dragging, or by keys.
import { type DragEvent, useState } from "react";
import { Button, IconButton } from "../../shared/form_controls";
import { text } from "../../strings/tasks";
import { QuickAdd } from "./new_task_field";
import { TaskCard } from "./task_card";
import { TaskStateMark } from "./task_badges";
import type { Moving } from "./task_moves";
import { STATES, type Task, type TaskState, inColumn } from "./task_values_filter_and_order";

const SHOWN = 50; // cards of a column, until more are asked for
const FOLDED = "hutch.task-columns";

type Props = { tasks: Task[]; openKeys: ReadonlySet<string>; marks: ReadonlyMap<string, string>; withRepository: boolean; addTo: string; mayWrite: boolean; moving: Moving };

function storedFolds(): TaskState[] {
  try {
    return JSON.parse(localStorage.getItem(FOLDED) ?? '["cancelled"]') as TaskState[];
  } catch {
    return ["cancelled"];
  }
}

export function TaskBoard(props: Props) {
  const [folded, setFolded] = useState<readonly TaskState[]>(storedFolds);
  const [over, setOver] = useState<TaskState | "">("");
  const fold = (state: TaskState) => {
    const next = folded.includes(state) ? folded.filter((each) => each !== state) : [...folded, state];
    setFolded(next);
    localStorage.setItem(FOLDED, JSON.stringify(next));
  };
  const { moving } = props;
  const dropTarget = (state: TaskState) => ({
    onDragOver: (event: DragEvent) => {
      if (!moving.dragged) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "move";
      if (over !== state) setOver(state);
    },
    onDragLeave: (event: DragEvent) => {
      if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver("");
    },
    onDrop: (event: DragEvent) => {
      event.preventDefault();
      setOver("");
      moving.drop(state);
    },
  });
  const isOver = (state: TaskState) => over === state && moving.dragged !== "";
  return (
    <div className="flex h-full min-h-0 gap-2 overflow-auto p-2 max-sm:flex-col">
      <p id="card-keys" className="sr-only">{props.mayWrite ? text.keysHint : ""}</p>
      {STATES.map((state) => {
        const found = inColumn(props.tasks, state);
        return folded.includes(state) && moving.picked?.state !== state && moving.last !== state
          ? <Strip key={state} state={state} count={found.length} open={() => fold(state)} isOver={isOver(state)} target={dropTarget(state)} />
          : <Column key={state} {...props} state={state} found={found} fold={() => fold(state)} isOver={isOver(state)} target={dropTarget(state)} />;
      })}
    </div>
  );
}

type Target = { onDragOver: (event: DragEvent) => void; onDragLeave: (event: DragEvent) => void; onDrop: (event: DragEvent) => void };
type ColumnProps = Props & { state: TaskState; found: Task[]; fold: () => void; isOver: boolean; target: Target };

function Column({ state, found, openKeys, marks, withRepository, addTo, mayWrite, moving, fold, isOver, target }: ColumnProps) {
  const [count, setCount] = useState(SHOWN);
  const [adding, setAdding] = useState(false);
  const name = text.states[state] ?? state;
  return (
    <section aria-label={`${name}, ${found.length}`} data-column={state} {...target} className={`fade flex min-w-52 grow basis-0 flex-col rounded-card border bg-frame max-sm:min-w-0 max-sm:basis-auto max-sm:grow-0 ${isOver ? "border-accent bg-selected" : ""}`}>
      <header className="flex h-8 shrink-0 items-center gap-2 px-2">
        <TaskStateMark state={state} word={false} />
        <h2 className="font-semibold">{name}</h2>
        <span className="text-12 text-t3">{found.length}</span>
        <span className="grow" />
        {mayWrite && state !== "cancelled" && <IconButton icon="plus" label={text.newIn(name)} onClick={() => setAdding(true)} />}
        <IconButton icon="chevron" label={text.fold(name)} onClick={fold} className="[&>svg]:rotate-180" />
      </header>
      <div className="flex min-h-0 grow flex-col gap-1.5 overflow-y-auto p-1.5 pt-0.5 max-sm:overflow-visible">
        {adding && <QuickAdd state={state} repository={addTo} onClose={() => setAdding(false)} />}
        <ul className="flex flex-col gap-1.5">
          {found.slice(0, count).map((task) => (
            <TaskCard key={task.id} task={task} isPicked={moving.picked?.id === task.id} isDragged={moving.dragged === task.id} withRepository={withRepository} mark={marks.get(task.id) ?? ""} mayWrite={mayWrite} tick={moving.tick} drag={moving.drag}
              waitsFor={state === "done" || state === "cancelled" ? "" : task.fields.depends_on.filter((each) => openKeys.has(`${task.repository} ${each}`)).join(", ")} />
          ))}
        </ul>
        {found.length > count && <Button kind="quiet" small onClick={() => setCount(count + SHOWN)}>{text.more(Math.min(SHOWN, found.length - count))}</Button>}
        {found.length === 0 && !adding && <p className="px-1 py-2 text-12 text-t3">{text.emptyColumn}</p>}
      </div>
    </section>
  );
}

/** A folded column: cards can still be dropped on it. */
function Strip({ state, count, open, isOver, target }: { state: TaskState; count: number; open: () => void; isOver: boolean; target: Target }) {
  const name = text.states[state] ?? state;
  return (
    <div data-column={state} {...target} className={`fade w-9 shrink-0 rounded-card border max-sm:w-full ${isOver ? "border-accent bg-selected" : "bg-frame"}`}>
      <button type="button" aria-expanded="false" onClick={open} className="inset-focus flex h-full w-full items-center gap-2 rounded-card py-2 text-t2 hover:bg-hover sm:flex-col max-sm:h-11 max-sm:px-2">
        <span className="sr-only">{text.unfold}</span>
        <TaskStateMark state={state} word={false} />
        <span className="sm:[writing-mode:vertical-rl]">{name}</span>
        <span className="text-12 text-t3">{count}</span>
      </button>
    </div>
  );
}

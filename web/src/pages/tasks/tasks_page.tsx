// Board and list of all tasks that the user may see, live. The address contains view, filter and order.
import { useEffect, useRef, useState } from "react";
import { useLocation, useSearchParams } from "wouter";
import { type Schemas, asProblem } from "../../api/http_client";
import { text } from "../../strings/tasks";
import { CopyButton } from "../../shared/copy_button";
import { Button, IconButton } from "../../shared/form_controls";
import { ProblemLine } from "../../shared/error_message";
import { usePageCommands } from "../../shared/page_commands";
import { isPressed, keysOf } from "../../shared/shortcuts";
import { setPageTitle } from "../../shared/page_title";
import { QuickAdd } from "./new_task_field";
import { RepositoryChoice } from "./new_task_repository_choice";
import { TaskAnnouncer } from "./task_move_announcer";
import { SavedFilters } from "./saved_filters";
import { SuggestedOwnersDialog } from "./suggested_owners_dialog";
import { TaskBoard } from "./task_board";
import { TaskFilters } from "./task_filters";
import { TaskList } from "./task_list";
import { goToCard, isOtherPlace, useMoves } from "./task_moves";
import { useTasks } from "./task_queries";
import { SORTS, type Sort, type Task, filterOf, isEnded, isFiltered, matches } from "./task_values_filter_and_order";
import { UnsentNotice } from "./unsent_changes_notice";
import { useUnsent } from "./unsent_task_changes";

const VIEW = "hutch.task-view";

export function TasksPage({ user }: { user: Schemas["User"] }) {
  const [params, setParams] = useSearchParams();
  const [, go] = useLocation();
  const filter = filterOf(params);
  const view = (params.get("view") ?? localStorage.getItem(VIEW)) === "list" ? "list" : "board";
  const [asked = "", order = ""] = (params.get("sort") ?? "").split(":");
  const sort = SORTS.find((each) => each === asked) ?? "updated";
  const { query, tasks, isTruncated } = useTasks(filter.repository);
  const everywhere = useTasks("").tasks;
  const mayWrite = user.role === "owner" || user.role === "member";
  const { moving, shown, onKey } = useMoves(tasks, mayWrite);
  const found = shown.filter((task) => matches(task, filter));
  const repositories = [...new Set(everywhere.map((each) => each.repository).filter(Boolean))].sort();
  const [suggesting, setSuggesting] = useState(false);
  const [adding, setAdding] = useState(false);
  const [target, setTarget] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const marks = useMarks();
  useEffect(() => {
    setPageTitle(text.title);
  }, []);

  const set = (changes: Record<string, string>) => setParams((before) => {
    const after = new URLSearchParams(before);
    for (const [name, value] of Object.entries(changes)) if (value) after.set(name, value); else after.delete(name);
    return after;
  }, { replace: true });
  const clear = () => set({ q: "", repository: "", owner: "", label: "", priority: "" });
  function show(next: "board" | "list") {
    localStorage.setItem(VIEW, next);
    set({ view: next });
  }
  const sortBy = (next: Sort) => set({ sort: next === sort && order !== "down" ? `${next}:down` : next });
  const repository = filter.repository || target || (repositories.length === 1 ? repositories[0] ?? "" : "");
  useEffect(() => {
    function press(event: KeyboardEvent) {
      if (isOtherPlace(event)) return;
      const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")].filter((row) => row.offsetParent !== null);
      const at = rows.indexOf(document.activeElement as HTMLElement);
      if (onKey(event)) { /* a card took it */ }
      else if (isPressed(event, "filter")) field.current?.focus();
      else if (isPressed(event, "newTask") && mayWrite) setAdding(true);
      else if (isPressed(event, "taskView")) show(view === "board" ? "list" : "board");
      else if (isPressed(event, "nextRow")) rows[Math.min(rows.length - 1, at + 1)]?.focus();
      else if (isPressed(event, "previousRow")) rows[Math.max(0, at - 1)]?.focus();
      else if (!goToCard(event)) return;
      event.preventDefault();
    }
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  });
  usePageCommands([
    ...(mayWrite ? [{ label: text.new, icon: "plus" as const, keys: keysOf("newTask"), run: () => setAdding(true) }, { label: text.suggest.button, icon: "spark" as const, run: () => setSuggesting(true) }] : []),
    { label: `${text.view}: ${view === "board" ? text.list : text.board}`, icon: "board" as const, keys: keysOf("taskView"), run: () => show(view === "board" ? "list" : "board") },
    ...tasks.slice(0, 500).map((each) => ({ label: text.card(each.key, each.fields.title), detail: text.states[each.fields.state] ?? "", icon: "board" as const, run: () => go(`/tasks/${each.id}`) })),
  ]);

  const isEmpty = query.isSuccess && tasks.length === 0 && !filter.repository;
  return (
    <main aria-label={text.title} className="flex h-full flex-col">
      <header className="flex flex-wrap items-center gap-2 border-b bg-panel px-3 py-2">
        <h1 className="text-14 font-semibold">{text.title}</h1>
        <TaskFilters filter={filter} tasks={tasks} repositories={repositories} me={user.name} field={field} set={(name, value) => set({ [name]: value })} clear={clear} />
        <SavedFilters filter={filter} set={set} />
        <span className="grow" />
        {tasks.length > 0 && <span className="meta max-md:hidden" role="status">{text.shown(found.length, tasks.length)}</span>}
        {mayWrite && tasks.length > 0 && <IconButton icon="spark" label={text.suggest.button} onClick={() => setSuggesting(true)} />}
        <ViewSwitch view={view} show={show} />
        {mayWrite && <Button kind="primary" icon="plus" keys={keysOf("newTask")} onClick={() => setAdding(true)}>{text.new}</Button>}
      </header>
      <UnsentNotice />
      {suggesting && <SuggestedOwnersDialog repository={filter.repository} onClose={() => setSuggesting(false)} />}
      {adding && mayWrite && (
        <div className="border-b bg-panel p-3">
          <div className="mx-auto flex max-w-2xl flex-col gap-2">
            {!filter.repository && <RepositoryChoice value={repository} known={repositories} onChange={setTarget} />}
            <QuickAdd state="todo" repository={repository} onClose={() => setAdding(false)} />
          </div>
        </div>
      )}
      {query.isError && <div className="p-3">{asProblem(query.error).status === 403 ? <p className="mt-[18vh] text-center text-t2">{text.empty.refused}</p> : <ProblemLine error={query.error} retry={() => void query.refetch()} />}</div>}
      {isTruncated && <p className="border-b bg-warn-tint px-3 py-1 text-12 text-warn">{text.truncated(tasks.length)}</p>}
      <div className="min-h-0 grow">
        {query.isPending ? <Skeleton /> : isEmpty ? <Empty add={mayWrite && !adding ? () => setAdding(true) : null} mayWrite={mayWrite} />
          : found.length === 0 && isFiltered(filter) ? <div className="mt-[18vh] text-center text-t2"><p>{text.nothing}</p><Button className="mt-3" onClick={clear}>{text.clear}</Button></div>
          : view === "board" ? <TaskBoard tasks={found} openKeys={openKeys(everywhere)} marks={marks} withRepository={!filter.repository && repositories.length > 1} addTo={repository} mayWrite={mayWrite} moving={moving} />
          : <TaskList tasks={found} sort={sort} isReversed={order === "down"} sortBy={sortBy} marks={marks} withRepository={!filter.repository && repositories.length > 1} mayWrite={mayWrite} tick={moving.tick} />}
      </div>
      <TaskAnnouncer />
    </main>
  );
}

/** Tasks that have not ended, as repository and key: others may wait for them. */
const openKeys = (tasks: Task[]) => new Set(tasks.filter((each) => !isEnded(each.fields.state)).map((each) => `${each.repository} ${each.key}`));

/** The note of a card about a change that the server does not have. */
function useMarks(): ReadonlyMap<string, string> {
  const unsent = useUnsent();
  return new Map(unsent.flatMap((each) => (each.kind === "change" && each.status !== "waiting" ? [[each.task, text.unsent.mark] as [string, string]] : [])));
}

function ViewSwitch({ view, show }: { view: "board" | "list"; show: (view: "board" | "list") => void }) {
  return (
    <div role="group" aria-label={text.view} className="flex rounded-row border border-edge">
      {(["board", "list"] as const).map((each) => (
        <button key={each} type="button" aria-pressed={view === each} onClick={() => show(each)} className={`fade h-[26px] px-2 text-13 first:rounded-l-row last:rounded-r-row pointer-coarse:h-11 ${view === each ? "bg-selected text-t1" : "text-t2 hover:bg-hover"}`}>{text[each]}</button>
      ))}
    </div>
  );
}

function Empty({ add, mayWrite }: { add: (() => void) | null; mayWrite: boolean }) {
  if (!mayWrite) return <p className="mx-auto mt-[18vh] max-w-xl p-6 text-center text-t2">{text.empty.watcher}</p>;
  return (
    <div className="mx-auto mt-[12vh] max-w-xl p-6">
      <p className="text-16">{text.empty.title}</p>
      <p className="mt-1 text-t2">{text.empty.add}</p>
      <ol className="mt-4 list-decimal space-y-3 pl-5">
        {text.empty.steps.map((step, at) => (
          <li key={step}>
            {step}
            <span className="mt-1 flex items-center gap-2 rounded-card border bg-code px-2 py-1"><code className="min-w-0 grow break-words">{at === 0 ? text.empty.file : text.empty.command}</code><CopyButton text={at === 0 ? text.empty.file : text.empty.command} /></span>
          </li>
        ))}
      </ol>
      <p className="meta mt-3">{text.empty.after}</p>
      {add && <Button className="mt-4" kind="primary" icon="plus" keys={keysOf("newTask")} onClick={add}>{text.new}</Button>}
    </div>
  );
}

const Skeleton = () => (
  <div aria-hidden="true" className="flex h-full gap-2 p-2">
    {Array.from({ length: 5 }, (_, column) => (
      <div key={column} className="grow basis-0 rounded-card border p-2">{Array.from({ length: 4 - (column % 3) }, (_, row) => <div key={row} className="skeleton mb-2 h-16" />)}</div>
    ))}
  </div>
);

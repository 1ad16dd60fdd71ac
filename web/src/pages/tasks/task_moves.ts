// Moves cards by dragging and by keys. A card that keys have picked up is shown in its new column until it is put down.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { isPressed } from "../../shared/shortcuts";
import { text } from "../../strings/tasks";
import { isTyping } from "../home_keys";
import { announce } from "./task_move_announcer";
import { STATES, type Task, type TaskState } from "./task_values_filter_and_order";
import { NEW, changeTask } from "./unsent_task_changes";

export type Picked = { id: string; state: TaskState };
export type Moving = { picked: Picked | null; last: TaskState | ""; dragged: string; drag: (id: string) => void; drop: (state: TaskState) => void; tick: (task: Task) => void };

const nameOf = (state: TaskState) => text.states[state] ?? state;
const titleOf = (task: Task) => text.card(task.key, task.fields.title);

const focusNow = (id: string) => document.querySelector<HTMLElement>(`[data-row="${CSS.escape(id)}"]`)?.focus();

/** After the card has been drawn in its new column. */
function focusCard(id: string): void {
  requestAnimationFrame(() => focusNow(id));
}

function move(task: Task, state: TaskState): void {
  changeTask(task, { state });
  announce(text.speech.dropped(titleOf(task), nameOf(state)));
}

/** `tasks` as stored; the result has the picked card where it would be put down. */
export function useMoves(tasks: Task[], mayWrite: boolean): { moving: Moving; shown: Task[]; onKey: (event: KeyboardEvent) => boolean } {
  const [picked, setPicked] = useState<Picked | null>(null);
  const [last, setLast] = useState<TaskState | "">(""); // where keys have put a card: that column stays open, so that the focus has a place
  const [dragged, setDragged] = useState("");
  const find = (id: string) => tasks.find((each) => each.id === id);
  const tick = useMemo(() => (task: Task) => move(task, task.fields.state === "done" ? "todo" : "done"), []);
  const drop = (state: TaskState) => {
    const task = find(dragged);
    setDragged("");
    if (task && task.fields.state !== state) move(task, state);
  };
  const shown = useMemo(() => (picked ? tasks.map((each) => (each.id === picked.id ? { ...each, fields: { ...each.fields, state: picked.state } } : each)) : tasks), [tasks, picked]);
  const putBack = useRef(""); // gets the focus when it is drawn: the next key must not find the page without one
  useLayoutEffect(() => {
    if (picked) focusNow(picked.id);
    else if (putBack.current) focusNow(putBack.current);
    putBack.current = "";
  }, [picked]);
  useEffect(() => { // a click elsewhere takes the card back
    function leave(event: FocusEvent) {
      if (picked && (event.target as HTMLElement).dataset["row"] !== picked.id) setPicked(null);
    }
    document.addEventListener("focusin", leave);
    return () => document.removeEventListener("focusin", leave);
  }, [picked]);

  function putDown(task: Task, state: TaskState) {
    putBack.current = task.id;
    setPicked(null);
    setLast(state);
    if (state === task.fields.state) announce(text.speech.back(titleOf(task), nameOf(state)));
    else move(task, state);
    focusCard(task.id);
  }

  /** True if the key belongs to a card. */
  function onKey(event: KeyboardEvent): boolean {
    const active = document.activeElement as HTMLElement | null;
    const isBetween = active === document.body; // a card that moves to another column is drawn anew
    const id = (isBetween && picked?.id) || (active?.dataset["row"] ?? "");
    const task = find(id);
    if (!task || !mayWrite || id.startsWith(NEW)) return false;
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (isPressed(event, "pickCard") || (picked && event.key === "Enter")) {
      if (picked) putDown(task, picked.state);
      else {
        setPicked({ id, state: task.fields.state });
        announce(text.speech.picked(titleOf(task), nameOf(task.fields.state)));
      }
      return true;
    }
    if (picked && event.key === "Escape") {
      putDown(task, task.fields.state);
      return true;
    }
    if (picked && step) {
      const at = STATES.indexOf(picked.state) + step;
      const state = STATES[Math.max(0, Math.min(STATES.length - 1, at))] ?? picked.state;
      setPicked({ id, state });
      announce(text.speech.over(nameOf(state), STATES.indexOf(state) + 1, STATES.length));
      return true;
    }
    if (picked) return event.key.startsWith("Arrow"); // up and down have no meaning: the order is by priority
    if (isPressed(event, "moveCardRight") || isPressed(event, "moveCardLeft")) {
      const state = STATES[STATES.indexOf(task.fields.state) + step];
      if (state) {
        setLast(state);
        move(task, state);
        focusCard(id);
      }
      return true;
    }
    if (isPressed(event, "tickTask")) {
      tick(task);
      focusCard(id);
      return true;
    }
    return false;
  }
  return { moving: { picked, last, dragged, drag: setDragged, drop, tick }, shown, onKey };
}

/** Arrows go from card to card: up and down in a column, left and right to the next column with cards. */
export function goToCard(event: KeyboardEvent): boolean {
  const active = document.activeElement as HTMLElement | null;
  const column = active?.closest<HTMLElement>("[data-column]");
  const columns = [...document.querySelectorAll<HTMLElement>("section[data-column]")].filter((each) => each.querySelector("[data-row]"));
  const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
  if (!step || !column || !active?.dataset["row"]) return false;
  const row = [...column.querySelectorAll<HTMLElement>("[data-row]")].indexOf(active);
  const cards = columns[columns.indexOf(column) + step]?.querySelectorAll<HTMLElement>("[data-row]");
  cards?.[Math.min(row, cards.length - 1)]?.focus();
  return true;
}

export function isOtherPlace(event: KeyboardEvent): boolean {
  return event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("[role=dialog],[role=menu]") !== null;
}

// Every shortcut of the app, declared once: `?` and the palette list them from here, and the handlers ask here.
import { strings } from "../strings";

export type Scope = "anywhere" | "noField" | "inTalk" | "inCard" | "inComposer" | "inReview" | "inPlayback" | "inTasks";
/** Keys as an event names them. `Mod` is Ctrl, on macOS Cmd; a space separates keys that follow each other. */
type Shortcut = { scope: Scope; keys: readonly string[]; title: string };

const does = strings.keys.does;
const declared = {
  palette: { scope: "anywhere", keys: ["Mod+k"], title: does.palette },
  openFile: { scope: "anywhere", keys: ["Mod+p"], title: does.openFile },
  needsMe: { scope: "anywhere", keys: ["Mod+."], title: does.needsMe },
  terminal: { scope: "anywhere", keys: ["Mod+`"], title: does.terminal },
  nextRegion: { scope: "anywhere", keys: ["F6"], title: does.nextRegion },
  previousRegion: { scope: "anywhere", keys: ["Shift+F6"], title: does.previousRegion },
  toTalk: { scope: "anywhere", keys: ["Mod+j c"], title: does.toTalk },
  toEditor: { scope: "anywhere", keys: ["Mod+j e"], title: does.toEditor },
  toFiles: { scope: "anywhere", keys: ["Mod+j f"], title: does.toFiles },
  toTerminal: { scope: "anywhere", keys: ["Mod+j t"], title: does.toTerminal },
  toTests: { scope: "anywhere", keys: ["Mod+j x"], title: does.toTests },
  toChanges: { scope: "anywhere", keys: ["Mod+j d"], title: does.toChanges },
  toPreview: { scope: "anywhere", keys: ["Mod+j p"], title: does.toPreview },
  toLog: { scope: "anywhere", keys: ["Mod+j l"], title: does.toLog },
  toDebugger: { scope: "anywhere", keys: ["Mod+j b"], title: does.toDebugger },
  nextTab: { scope: "anywhere", keys: ["Mod+j ]"], title: does.nextTab },
  previousTab: { scope: "anywhere", keys: ["Mod+j ["], title: does.previousTab },
  closeTab: { scope: "anywhere", keys: ["Mod+j w"], title: does.closeTab },
  files: { scope: "anywhere", keys: ["Mod+b"], title: does.files },
  maximise: { scope: "anywhere", keys: ["Mod+\\"], title: does.maximise },
  save: { scope: "anywhere", keys: ["Mod+s"], title: does.save },
  keys: { scope: "noField", keys: ["?"], title: does.keys },
  newSession: { scope: "noField", keys: ["c"], title: does.newSession },
  filter: { scope: "noField", keys: ["/"], title: does.filter },
  nextRow: { scope: "noField", keys: ["j", "ArrowDown"], title: does.nextRow },
  previousRow: { scope: "noField", keys: ["k", "ArrowUp"], title: does.previousRow },
  openRow: { scope: "noField", keys: ["Enter"], title: does.openRow },
  select: { scope: "noField", keys: ["x"], title: does.select },
  goHome: { scope: "noField", keys: ["g h"], title: does.goHome },
  goTasks: { scope: "noField", keys: ["g t"], title: does.goTasks },
  goChanges: { scope: "noField", keys: ["g r"], title: does.goChanges },
  goInterviews: { scope: "noField", keys: ["g i"], title: does.goInterviews },
  goAnalytics: { scope: "noField", keys: ["g a"], title: does.goAnalytics },
  goActivity: { scope: "noField", keys: ["g e"], title: does.goActivity },
  goSettings: { scope: "noField", keys: ["g s"], title: does.goSettings },
  nextTalkRow: { scope: "inTalk", keys: ["j", "ArrowDown"], title: does.nextRow },
  previousTalkRow: { scope: "inTalk", keys: ["k", "ArrowUp"], title: does.previousRow },
  nextTurn: { scope: "inTalk", keys: ["PageDown"], title: does.nextTurn },
  previousTurn: { scope: "inTalk", keys: ["PageUp"], title: does.previousTurn },
  openTalkRow: { scope: "inTalk", keys: ["ArrowRight"], title: does.openRow },
  closeTalkRow: { scope: "inTalk", keys: ["ArrowLeft"], title: does.closeRow },
  editTalkRow: { scope: "inTalk", keys: ["o"], title: does.editRow },
  copyTalkRow: { scope: "inTalk", keys: ["y"], title: does.copyRow },
  speakTalkRow: { scope: "inTalk", keys: ["s"], title: does.speakRow },
  allowOnce: { scope: "inCard", keys: ["1"], title: does.allowOnce },
  allowSession: { scope: "inCard", keys: ["2"], title: does.allowSession },
  allowAlways: { scope: "inCard", keys: ["3"], title: does.allowAlways },
  deny: { scope: "inCard", keys: ["d"], title: does.deny },
  leaveCard: { scope: "inCard", keys: ["Escape"], title: does.leaveCard },
  send: { scope: "inComposer", keys: ["Enter"], title: does.send },
  newLine: { scope: "inComposer", keys: ["Shift+Enter"], title: does.newLine },
  editLast: { scope: "inComposer", keys: ["ArrowUp"], title: does.editLast },
  sendNext: { scope: "inComposer", keys: ["Mod+Enter"], title: does.sendNext },
  stop: { scope: "inComposer", keys: ["Escape Escape"], title: does.stop },
  nextFile: { scope: "inReview", keys: ["]"], title: does.nextFile },
  previousFile: { scope: "inReview", keys: ["["], title: does.previousFile },
  nextChange: { scope: "inReview", keys: ["n"], title: does.nextChange },
  previousChange: { scope: "inReview", keys: ["p"], title: does.previousChange },
  comment: { scope: "inReview", keys: ["c"], title: does.comment },
  viewed: { scope: "inReview", keys: ["v"], title: does.viewed },
  layout: { scope: "inReview", keys: ["u"], title: does.layout },
  sendComment: { scope: "inReview", keys: ["Mod+Enter"], title: does.sendComment },
  play: { scope: "inPlayback", keys: ["Space"], title: does.play },
  back: { scope: "inPlayback", keys: ["ArrowLeft"], title: does.back },
  forth: { scope: "inPlayback", keys: ["ArrowRight"], title: does.forth },
  farBack: { scope: "inPlayback", keys: ["Shift+ArrowLeft"], title: does.farBack },
  farForth: { scope: "inPlayback", keys: ["Shift+ArrowRight"], title: does.farForth },
  previousEvent: { scope: "inPlayback", keys: [","], title: does.previousEvent },
  nextEvent: { scope: "inPlayback", keys: ["."], title: does.nextEvent },
  previousMarker: { scope: "inPlayback", keys: ["["], title: does.previousMarker },
  nextMarker: { scope: "inPlayback", keys: ["]"], title: does.nextMarker },
  slower: { scope: "inPlayback", keys: ["<"], title: does.slower },
  faster: { scope: "inPlayback", keys: [">"], title: does.faster },
  toStart: { scope: "inPlayback", keys: ["Home"], title: does.toStart },
  toEnd: { scope: "inPlayback", keys: ["End"], title: does.toEnd },
  tenth: { scope: "inPlayback", keys: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"], title: does.tenth },
  search: { scope: "inPlayback", keys: ["/"], title: does.search },
  link: { scope: "inPlayback", keys: ["l"], title: does.link },
  newTask: { scope: "inTasks", keys: ["c"], title: does.newTask },
  taskView: { scope: "inTasks", keys: ["v"], title: does.taskView },
  tickTask: { scope: "inTasks", keys: ["x"], title: does.tickTask },
  pickCard: { scope: "inTasks", keys: ["Space"], title: does.pickCard },
  moveCardRight: { scope: "inTasks", keys: ["Shift+ArrowRight"], title: does.moveCardRight },
  moveCardLeft: { scope: "inTasks", keys: ["Shift+ArrowLeft"], title: does.moveCardLeft },
  nextColumn: { scope: "inTasks", keys: ["ArrowRight", "ArrowLeft"], title: does.nextColumn },
} as const satisfies Record<string, Shortcut>;

export type ShortcutId = keyof typeof declared;
export const SHORTCUTS: Readonly<Record<ShortcutId, Shortcut>> = declared;
export const SCOPES: Scope[] = ["anywhere", "noField", "inTalk", "inCard", "inComposer", "inReview", "inPlayback", "inTasks"];
const NAMES: Record<string, string> = { Escape: "Esc", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", PageUp: "PgUp", PageDown: "PgDn" };

const isMac = () => typeof navigator !== "undefined" && /^Mac|iPhone|iPad/.test(navigator.platform);

/** The first keys of a shortcut as people read them: `Ctrl K`, `g h`. */
export function keysOf(id: ShortcutId): string {
  const { keys } = SHORTCUTS[id];
  if (keys.length > 2) return `${keys[0]} … ${keys.at(-1)}`;
  return (keys[0] ?? "").split(" ").map((part) => part.split("+").map((key) => (key === "Mod" ? (isMac() ? "⌘" : "Ctrl") : NAMES[key] ?? (part.includes("Mod+") && key.length === 1 ? key.toUpperCase() : key))).join(" ")).join(" ");
}

type Pressed = Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">;

const KEY = "hutch.character-keys";
const SWITCHED = new Set<Scope>(["noField", "inTalk", "inReview", "inPlayback", "inTasks"]); // those of a card act only inside it

/** True unless the person has switched off keys that are a single character (WCAG 2.1.4). */
export const areCharacterKeysOn = () => typeof localStorage === "undefined" || localStorage.getItem(KEY) !== "off";

export function setCharacterKeys(on: boolean): void {
  if (on) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, "off");
}

/** True if an event is the last key of a shortcut. The caller follows sequences. */
export function isPressed(event: Pressed, id: ShortcutId): boolean {
  if (event.altKey) return false;
  const isCharacter = event.key.length === 1 && event.key !== " " && !event.ctrlKey && !event.metaKey;
  if (isCharacter && SWITCHED.has(SHORTCUTS[id].scope) && !areCharacterKeysOn()) return false;
  return SHORTCUTS[id].keys.some((keys) => {
    const parts = (keys.split(" ").at(-1) ?? "").split("+");
    const key = parts.at(-1);
    const name = event.key === " " ? "Space" : event.key;
    const isShifted = parts.includes("Shift");
    // A sign such as ? or < is typed with Shift on some keyboards: only named keys and Mod look at it.
    const isShiftRight = isShifted === event.shiftKey || (!isShifted && name.length === 1 && !parts.includes("Mod"));
    return parts.includes("Mod") === (event.ctrlKey || event.metaKey) && isShiftRight && name === key;
  });
}

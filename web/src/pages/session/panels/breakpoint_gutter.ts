// Breakpoints beside the line numbers, and the line at which the shared debugger has stopped.
import { type Extension, type Range, RangeSet, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, GutterMarker, gutter, keymap } from "@codemirror/view";
import type { Breakpoint } from "../../../fold/view_types";
import { showHidden } from "../../../shared/safe_text";
import { text } from "../../../strings/debugger";

type Shown = { breakpoints: readonly Breakpoint[]; stoppedAt: number; toggle: ((line: number) => void) | null };
export const showDebugger = StateEffect.define<Shown>();

class Mark extends GutterMarker {
  constructor(private readonly breakpoint: Breakpoint | null, private readonly isStopped: boolean) {
    super();
  }

  override eq(other: Mark): boolean {
    return other.breakpoint?.line === this.breakpoint?.line && other.breakpoint?.condition === this.breakpoint?.condition && other.isStopped === this.isStopped;
  }

  override toDOM(): HTMLElement {
    const made = document.createElement("span");
    made.className = `breakpoint ${this.breakpoint ? (this.breakpoint.condition ? "breakpoint-if" : "breakpoint-set") : ""} ${this.isStopped ? "breakpoint-stopped" : ""}`;
    if (this.breakpoint) made.title = [text.breakpointAt(this.breakpoint.line), this.breakpoint.condition && text.onlyIf(showHidden(this.breakpoint.condition))].filter(Boolean).join(", ");
    return made;
  }
}

const stoppedLine = Decoration.line({ class: "debugger-line" });
const spacer = new Mark(null, false);

type Marks = Shown & { marks: RangeSet<Mark>; lines: DecorationSet };

const shown = StateField.define<Marks>({
  create: () => ({ breakpoints: [], stoppedAt: 0, toggle: null, marks: RangeSet.empty, lines: Decoration.none }),
  update(before, transaction) {
    let given: Shown = before;
    let isGiven = false;
    for (const effect of transaction.effects) if (effect.is(showDebugger)) { given = effect.value; isGiven = true; }
    if (!isGiven && !transaction.docChanged) return before;
    const { newDoc } = transaction; // breakpoints stay at their line numbers, as on the server
    const byLine = new Map(given.breakpoints.map((each) => [each.line, each]));
    const numbers = [...new Set([...byLine.keys(), given.stoppedAt])].filter((line) => line >= 1 && line <= newDoc.lines).sort((a, b) => a - b);
    const marks: Range<Mark>[] = numbers.map((line) => new Mark(byLine.get(line) ?? null, line === given.stoppedAt).range(newDoc.line(line).from));
    const isIn = given.stoppedAt >= 1 && given.stoppedAt <= newDoc.lines;
    return { ...given, marks: RangeSet.of(marks), lines: isIn ? Decoration.set([stoppedLine.range(newDoc.line(given.stoppedAt).from)]) : Decoration.none };
  },
  provide: (value) => EditorView.decorations.from(value, (marks) => marks.lines),
});

function toggleAt(view: EditorView, position: number): boolean {
  const { toggle } = view.state.field(shown);
  if (!toggle) return false;
  toggle(view.state.doc.lineAt(position).number);
  return true;
}

export const breakpointGutter: Extension = [
  shown,
  gutter({
    class: "cm-breakpoints",
    markers: (view) => view.state.field(shown).marks,
    initialSpacer: () => spacer,
    domEventHandlers: { mousedown: (view, line) => toggleAt(view, line.from) },
  }),
  keymap.of([{ key: "F9", run: (view) => toggleAt(view, view.state.selection.main.head) }]),
];

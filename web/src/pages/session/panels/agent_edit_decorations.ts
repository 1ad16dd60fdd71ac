// The agent's text in the editor: as a preview while it is written, and tinted after it has landed. It is no part of the
// document, so people type beside it.
import { type ChangeSet, type Extension, type Range, RangeSet, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, GutterMarker, WidgetType, gutterLineClass } from "@codemirror/view";
import { showHidden } from "../../../shared/safe_text";
import type { Ghost } from "./streamed_edit_parser";

export const setGhosts = StateEffect.define<{ ghosts: Ghost[]; name: string }>();
export const markLanded = StateEffect.define<{ from: number; to: number }[]>();
export const clearLanded = StateEffect.define<null>();

const MAX_GHOST_LINES = 300;

class GhostText extends WidgetType {
  constructor(private readonly text: string, private readonly isOpen: boolean, private readonly name: string, private readonly isBlock: boolean) {
    super();
  }

  override eq(other: GhostText): boolean {
    return other.text === this.text && other.isOpen === this.isOpen && other.isBlock === this.isBlock;
  }

  override get lineBreaks(): number {
    return this.isBlock ? 0 : this.text.split("\n").length - 1;
  }

  override get estimatedHeight(): number {
    return this.isBlock ? this.text.split("\n").length * 20 : -1;
  }

  override toDOM(): HTMLElement {
    const made = document.createElement(this.isBlock ? "div" : "span");
    made.className = this.isBlock ? "agent-ghost agent-ghost-block" : "agent-ghost";
    const lines = this.text.split("\n");
    made.textContent = showHidden(lines.slice(-MAX_GHOST_LINES).join("\n"));
    if (this.isOpen) {
      const caret = document.createElement("span");
      caret.className = "other-caret person-agent";
      const flag = document.createElement("span");
      flag.className = "other-flag agent-flag";
      flag.dataset["name"] = this.name;
      caret.append(flag);
      made.append(caret);
    }
    return made;
  }

  override ignoreEvent(): boolean {
    return true;
  }
}

const ghosts = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(before, transaction) {
    let given: { ghosts: Ghost[]; name: string } | undefined;
    for (const effect of transaction.effects) if (effect.is(setGhosts)) given = effect.value;
    if (!given) return before.map(transaction.changes);
    const { ghosts: list, name } = given;
    const doc = transaction.newDoc;
    const ranges: Range<Decoration>[] = [];
    for (const ghost of list) {
      const from = Math.min(ghost.from, doc.length);
      const to = Math.min(Math.max(ghost.to, from), doc.length);
      if (to > from) ranges.push(Decoration.mark({ class: "agent-removed" }).range(from, to));
      if (!ghost.text && !ghost.isOpen) continue;
      const line = doc.lineAt(to);
      const startsLine = to === line.from;
      const isBlock = ghost.text.includes("\n") && (startsLine || to === line.to);
      const text = isBlock ? ghost.text.replace(startsLine ? /\n$/ : /^\n/, "") : ghost.text;
      const widget = new GhostText(text, ghost.isOpen, name, isBlock);
      ranges.push(Decoration.widget({ widget, side: isBlock && startsLine && to !== from ? 1 : isBlock && startsLine ? -1 : 1, ...(isBlock ? { block: true } : {}) }).range(isBlock ? (startsLine ? line.from : line.to) : to));
    }
    return Decoration.set(ranges, true);
  },
  provide: (value) => EditorView.decorations.from(value),
});

class LandedLine extends GutterMarker {
  override elementClass = "agent-landed-gutter";
}
const landedLine = new LandedLine();
const landedText = Decoration.mark({ class: "agent-landed" });

const landed = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(before, transaction) {
    let after = mapped(before, transaction.changes);
    for (const effect of transaction.effects) {
      if (effect.is(clearLanded)) after = Decoration.none;
      if (effect.is(markLanded)) {
        const add = effect.value.filter(({ from, to }) => to > from && to <= transaction.newDoc.length).map(({ from, to }) => landedText.range(from, to));
        after = after.update({ add, sort: true });
      }
    }
    return after;
  },
  provide: (value) => EditorView.decorations.from(value),
});

const mapped = (set: DecorationSet, changes: ChangeSet) => (set.size ? set.map(changes) : set);

const landedGutter = gutterLineClass.compute([landed], (state) => {
  const lines: Range<GutterMarker>[] = [];
  let last = -1;
  for (const cursor = state.field(landed).iter(); cursor.value; cursor.next()) {
    for (let at = cursor.from; at <= cursor.to; ) {
      const line = state.doc.lineAt(at);
      if (line.from > last && line.from < cursor.to) lines.push(landedLine.range(line.from));
      last = Math.max(last, line.from);
      at = line.to + 1;
    }
  }
  return RangeSet.of(lines, true);
});

export const agentPreview: Extension = [ghosts, landed, landedGutter];
export const hasLanded = (view: EditorView) => view.state.field(landed).size > 0;

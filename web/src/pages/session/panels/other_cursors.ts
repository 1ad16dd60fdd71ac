// Carets and selections of other people in the editor. Colours are classes: the page's policy forbids inline styles.
import { EditorSelection, type Extension, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, WidgetType } from "@codemirror/view";

export type OtherCursor = { peer: number; user: string; name: string; anchor: number; head: number };
export const setCursors = StateEffect.define<OtherCursor[]>();

const COLOURS = 8;

/** The same number for a person in every window, 1 to 8. */
export function colourOf(user: string): number {
  let sum = 0;
  for (const char of user) sum = (sum * 31 + (char.codePointAt(0) ?? 0)) >>> 0;
  return (sum % COLOURS) + 1;
}

class Caret extends WidgetType {
  constructor(private readonly cursor: OtherCursor) {
    super();
  }

  override eq(other: Caret): boolean {
    return other.cursor.peer === this.cursor.peer && other.cursor.name === this.cursor.name && other.cursor.head === this.cursor.head;
  }

  override toDOM(): HTMLElement {
    const caret = document.createElement("span");
    caret.className = `other-caret person-${colourOf(this.cursor.user)}`;
    const flag = document.createElement("span");
    flag.className = "other-flag";
    flag.dataset["name"] = this.cursor.name; // drawn by CSS: it is no text of the file
    caret.append(flag);
    return caret;
  }

  override ignoreEvent(): boolean {
    return true;
  }
}

const field = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(before, transaction) {
    let cursors: OtherCursor[] | undefined;
    for (const effect of transaction.effects) if (effect.is(setCursors)) cursors = effect.value;
    if (!cursors) return before.map(transaction.changes);
    const length = transaction.newDoc.length;
    const ranges = cursors.flatMap((cursor) => {
      const { from, to, head } = EditorSelection.range(Math.min(cursor.anchor, length), Math.min(cursor.head, length));
      const caret = Decoration.widget({ widget: new Caret(cursor), side: 1 }).range(head);
      return from < to ? [Decoration.mark({ class: `other-selection person-${colourOf(cursor.user)}` }).range(from, to), caret] : [caret];
    });
    return Decoration.set(ranges, true);
  },
  provide: (value) => EditorView.decorations.from(value),
});

export const otherCursors: Extension = field;

// The view at any event of a log. A copy of the fold is kept every 500 events, so that a jump folds few events anew.
import { Fold } from "../../fold/fold";
import type { AnyEntry, Output, Row, View } from "../../fold/view_types";

const SPACING = 500;
const MAX_COPIES = 64; // in longer logs every second copy is dropped

export class Moments {
  private fold = new Fold();
  private copies: { seq: number; fold: Fold }[] = [];
  private spacing = SPACING;

  constructor(private readonly entries: readonly AnyEntry[]) {}

  /** The view after event `seq`. It is valid until the next call. */
  at(seq: number): View {
    const now = this.fold.view.seq;
    if (seq < now || seq - now > this.spacing) {
      const start = this.copies.findLast((each) => each.seq <= seq);
      if (!start) {
        if (seq < now) this.fold = new Fold();
      } else if (start.seq > now || seq < now) {
        this.fold = copyFold(start.fold);
      }
    }
    this.advance(this.fold, seq, true);
    return this.fold.view;
  }

  /** As `at`, but of its own: it stays as it is. */
  peek(seq: number): View {
    const start = this.copies.findLast((each) => each.seq <= seq);
    const fold = start ? copyFold(start.fold) : new Fold();
    this.advance(fold, seq, false);
    return fold.view;
  }

  private advance(fold: Fold, seq: number, keeps: boolean): void {
    const end = Math.min(seq, this.entries.length);
    for (let at = fold.view.seq; at < end; at += 1) {
      const entry = this.entries[at];
      if (!entry) return;
      fold.entry(entry);
      if (keeps && entry.seq % this.spacing === 0 && (this.copies.at(-1)?.seq ?? 0) < entry.seq) this.addCopy(entry.seq, fold);
    }
  }

  private addCopy(seq: number, fold: Fold): void {
    this.copies.push({ seq, fold: copyFold(fold) });
    if (this.copies.length <= MAX_COPIES) return;
    this.spacing *= 2;
    this.copies = this.copies.filter((each) => each.seq % this.spacing === 0);
  }
}

/** A fold that can go on by itself. Rows are replaced and never changed, so both share them; only output grows in place. */
export function copyFold(fold: Fold): Fold {
  return copied(fold, new Map()) as Fold;
}

function copied(value: unknown, done: Map<unknown, unknown>): unknown {
  if (value === null || typeof value !== "object") return value;
  const before = done.get(value);
  if (before !== undefined) return before;
  if (value instanceof Map) return new Map(value);
  if (value instanceof Set) return new Set(value);
  if (Array.isArray(value)) return value.map(withOwnOutput);
  const copy = Object.create(Object.getPrototypeOf(value) as object | null) as Record<string, unknown>;
  done.set(value, copy);
  for (const [name, each] of Object.entries(value)) copy[name] = copied(each, done);
  return copy;
}

function withOwnOutput(row: unknown): unknown {
  const output = (row as { output?: Output } | null)?.output;
  return output?.pieces ? { ...(row as Row), output: { ...output, pieces: output.pieces.slice() } } : row;
}

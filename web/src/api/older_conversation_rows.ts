// Rows before those of the view, read when a reader scrolls to them and dropped when the reader is back at the end.
import type { Fold } from "../fold/fold";
import { foldOlder } from "../fold/partial_log";
import { MAX_ROWS } from "../fold/shared_fold_state";
import type { AnyEntry, Row } from "../fold/view_types";
import { get } from "./http_client";

const PAGE_EVENTS = 1000;
const ROWS_WHILE_READING = 4 * MAX_ROWS; // of the view, which drops none while a reader is above them

export class OlderRows {
  isLoading = false;
  private rows: Row[] = [];
  private from = 0; // the first event of the rows here
  private until = 0; // rows of the view begin at this event

  constructor(private readonly session: string, private readonly fold: () => Fold, private readonly notify: () => void) {}

  /** The first event that has its row here. 0 if all have. */
  get firstSeq(): number {
    return this.isHere ? this.from : this.fold().view.rowsFrom;
  }

  get count(): number {
    return this.isHere ? this.rows.length : 0;
  }

  /** False after the view has dropped rows between these and its own. */
  private get isHere(): boolean {
    return this.rows.length > 0 && this.until === this.fold().view.rowsFrom;
  }

  before(rows: readonly Row[]): readonly Row[] {
    if (!this.isHere) return rows;
    const ids = new Set(rows.slice(0, 1).map((row) => row.id)); // the prompt of a long run is in both
    return [...this.rows.filter((row) => !ids.has(row.id)), ...rows];
  }

  async load(): Promise<void> {
    const before = this.firstSeq;
    if (this.isLoading || before === 0) return;
    this.isLoading = true;
    this.notify();
    try {
      const { items } = await get<{ items: AnyEntry[] }>(`/sessions/${this.session}/events?before=${before}&limit=${PAGE_EVENTS}`);
      if (before !== this.firstSeq) return; // the view has moved on meanwhile
      const found = foldOlder(items);
      const own = this.isHere ? this.rows : [];
      this.until = this.fold().view.rowsFrom;
      this.rows = [...this.fold().markUndoneIn(found.rows), ...own];
      this.from = found.from;
      this.fold().maxRows = ROWS_WHILE_READING;
    } finally {
      this.isLoading = false;
      this.notify();
    }
  }

  drop(): void {
    if (!this.rows.length) return;
    this.rows = [];
    this.fold().maxRows = MAX_ROWS;
    this.notify();
  }
}

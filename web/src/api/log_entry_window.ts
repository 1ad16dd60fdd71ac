// The newest events of a log, and older ones when the reader scrolls to them. There is never a gap.
import type { AnyEntry } from "../fold/view_types";
import { get } from "./http_client";

const MAX_ENTRIES = 2000;
const SPARE_ENTRIES = 500; // so that entries are dropped in one go
const MAX_WHILE_READING = 25_000;
const PAGE_EVENTS = 1000;

export class LogEntries {
  list: AnyEntry[] = [];
  isLoading = false;
  private isRead = false;

  constructor(private readonly session: string, private readonly notify: () => void) {}

  add(entry: AnyEntry): void {
    this.list.push(entry);
  }

  trim(): void {
    const max = this.isRead ? MAX_WHILE_READING : MAX_ENTRIES;
    if (this.list.length > max + SPARE_ENTRIES) this.list = this.list.slice(-max);
  }

  /** True if there are older ones that may be read too. */
  get hasOlder(): boolean {
    return (this.list[0]?.seq ?? 1) > 1 && this.list.length < MAX_WHILE_READING;
  }

  async loadOlder(): Promise<void> {
    const first = this.list[0]?.seq ?? 1;
    if (this.isLoading || !this.hasOlder) return;
    this.isLoading = this.isRead = true;
    try {
      const { items } = await get<{ items: AnyEntry[] }>(`/sessions/${this.session}/events?before=${first}&limit=${PAGE_EVENTS}`);
      if (this.list[0]?.seq === first) this.list = [...items, ...this.list];
    } finally {
      this.isLoading = false;
      this.notify();
    }
  }

  /** Ends the reading of older entries: the reader is back at the end. */
  close(): void {
    this.isRead = false;
    this.trim();
  }
}

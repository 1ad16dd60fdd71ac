// The conversation: virtual rows that stay where the reader is, and follow the end only while the reader is there.
import { type Virtualizer, defaultRangeExtractor, useVirtualizer } from "@tanstack/react-virtual";
import { type RefObject, memo, useEffect, useRef, useState } from "react";
import type { SessionStream } from "../../api/session_stream";
import { Button } from "../../shared/form_controls";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { useSessionContext, useView } from "./session_context";
import { type Item, type Items, NO_ITEMS, itemsOf } from "./conversation_items";
import { useConversationKeys } from "./conversation_keys";
import { RowView, StepsRow } from "./conversation_rows";
import { ConversationSearch } from "./conversation_search";
import { GroupRow } from "./tool_row";

const ESTIMATES: Record<string, number> = { group: 29, tool: 29, prompt: 76, message: 60, reply: 84, note: 29, command: 29, tests: 29 };
const NEAR_END_PX = 64;
const PINNED_PX = 28; // the line of the prompt whose own row is scrolled away
const NEAR_START_ROWS = 60;
const DROP_MS = 10_000;
const MAX_RETURN_EVENTS = 20_000; // a reader who was further up begins at the end

export function Conversation() {
  const { id, stream } = useSessionContext();
  const view = useView();
  const scroller = useRef<HTMLDivElement>(null);
  const [stored] = useState<{ made: Items }>(() => ({ made: NO_ITEMS }));
  const { items } = (stored.made = itemsOf(stream.rows, stored.made)); // so that items keep their identity
  const [found, setFound] = useState("");
  const focusedRow = useRef(-1);
  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    getItemKey: (index) => items[index]?.id ?? index,
    estimateSize: (index) => {
      const item = items[index];
      return ESTIMATES[item?.kind === "row" ? item.row.kind : "group"] ?? 29;
    },
    overscan: 8,
    rangeExtractor: (range) => { // the row with the focus stays drawn
      const drawn = defaultRangeExtractor(range);
      const at = focusedRow.current;
      return at >= 0 && at < items.length && !drawn.includes(at) ? [...drawn, at].sort((a, b) => a - b) : drawn;
    },
    anchorTo: "end",
    followOnAppend: true,
    scrollEndThreshold: NEAR_END_PX,
    scrollPaddingStart: PINNED_PX,
    paddingEnd: 12,
    initialOffset: () => Number.MAX_SAFE_INTEGER,
  });
  const atEnd = virtual.isAtEnd(NEAR_END_PX);
  const [seenSeq, setSeenSeq] = useState(view.seq);
  if (atEnd && seenSeq !== view.seq) setSeenSeq(view.seq);
  const isEmpty = items.length === 0;
  const wasAtEnd = useRef(true);
  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const note = () => { wasAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END_PX; };
    let height = element.clientHeight;
    const stay = new ResizeObserver(() => { // a card came or went
      if (wasAtEnd.current && element.clientHeight !== height) element.scrollTop = element.scrollHeight;
      height = element.clientHeight;
    });
    element.addEventListener("scroll", note, { passive: true });
    stay.observe(element);
    return () => {
      element.removeEventListener("scroll", note);
      stay.disconnect();
    };
  }, [stream.isLoaded, isEmpty]);
  useStoredScrollPlace(id, scroller, items, virtual, stream);
  useOlderRows(stream, virtual, atEnd);
  const { focused, speech } = useConversationKeys({ items, virtual, scroller });
  useEffect(() => { focusedRow.current = focused; }, [focused]);
  const show = (index: number) => {
    setFound(items[index]?.id ?? "");
    virtual.scrollToIndex(index, { align: "center" });
  };
  if (!stream.isLoaded) return <p className="meta p-4">{strings.session.loading}</p>;
  if (items.length === 0) return <p className="p-4 text-t2">{strings.session.empty}</p>;
  return (
    <div className="relative flex h-full flex-col">
      <ConversationSearch items={items} show={show} onClose={() => setFound("")} />
      <div className="relative z-10 h-0"><PinnedPrompt items={items} virtual={virtual} /></div>
      <div ref={scroller} role="log" aria-live="off" aria-label={strings.session.talk} tabIndex={0} className="inset-focus min-h-0 grow overflow-x-hidden overflow-y-auto" style={{ overflowAnchor: "none" }}>
        <div className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((each) => {
            const item = items[each.index];
            return item && (
              <div key={each.key} data-index={each.index} data-item={item.id} data-seq={(item.kind === "row" ? item.row : item.rows[0])?.seq} ref={virtual.measureElement} tabIndex={-1} className={`inset-focus absolute inset-x-0 top-0 ${item.id === found ? "bg-match" : ""}`} style={{ transform: `translateY(${each.start}px)` }}>
                <ItemView item={item} />
              </div>
            );
          })}
        </div>
      </div>
      <p className="sr-only" aria-live="polite">{speech}</p>
      {stream.older.isLoading && <p role="status" className="meta pointer-events-none absolute inset-x-0 top-0 z-20 bg-panel/90 px-3 py-1 text-center">{strings.session.readingOlder}</p>}
      {!atEnd && (
        <Button className="absolute bottom-2 left-1/2 -translate-x-1/2 shadow-menu" icon="down" onClick={() => virtual.scrollToEnd()}>{view.seq > seenSeq || (view.run !== "" && view.pending.length === 0) ? strings.session.newBelow : strings.session.toEnd}</Button>
      )}
    </div>
  );
}

const ItemView = memo(function ItemView({ item }: { item: Item }) {
  return item.kind === "row" ? <RowView row={item.row} /> : item.kind === "group" ? <GroupRow id={item.id} rows={item.rows} /> : <StepsRow id={item.id} rows={item.rows} />;
});

/** The prompt of the run that the reader is in, while its row is scrolled away. */
function PinnedPrompt({ items, virtual }: { items: readonly Item[]; virtual: Virtualizer<HTMLDivElement, Element> }) {
  const { nameOf } = useSessionContext();
  const end = virtual.getTotalSize() - (virtual.scrollRect?.height ?? 0); // until somebody scrolls, the offset may be beyond it
  const offset = Math.min(virtual.scrollOffset ?? 0, end);
  const first = offset > 0 ? virtual.getVirtualItemForOffset(offset)?.index ?? 0 : 0;
  let at = first;
  while (at >= 0 && promptOf(items[at]) === null) at -= 1;
  const prompt = at < first ? promptOf(items[at]) : null;
  if (!prompt) return null;
  return (
    <button type="button" data-pinned title={strings.session.toPrompt} onClick={() => virtual.scrollToIndex(at, { align: "start" })} className="inset-focus absolute inset-x-0 top-0 flex h-7 items-center gap-2 border-b bg-code px-3 text-left text-12">
      <span className="shrink-0 font-semibold"><SafeText text={nameOf(prompt.by)} /></span>
      <span className="min-w-0 truncate text-t2"><SafeText text={prompt.text.slice(0, 200)} /></span>
    </button>
  );
}

const promptOf = (item: Item | undefined) => (item?.kind === "row" && item.row.kind === "prompt" ? item.row : null);

/** Read older rows before the reader is at the first one, and drop them when the reader is back at the end. */
function useOlderRows(stream: SessionStream, virtual: Virtualizer<HTMLDivElement, Element>, atEnd: boolean): void {
  const first = virtual.getVirtualItems()[0]?.index ?? Infinity;
  const hasMore = stream.isWhole && stream.older.firstSeq > 0;
  const isNear = hasMore && !atEnd && first < NEAR_START_ROWS && !stream.older.isLoading;
  useEffect(() => {
    if (isNear) stream.older.load().catch((error: unknown) => console.warn("Older entries cannot be read.", error));
  }, [stream, isNear]);
  const isBack = atEnd && stream.older.count > 0;
  useEffect(() => {
    if (!isBack) return;
    const timer = setTimeout(() => stream.older.drop(), DROP_MS);
    return () => clearTimeout(timer);
  }, [stream, isBack]);
}

type Place = { item: string; below: number; seq: number };

/** After a reload or a return to the page, the same row is at the same height. */
function useStoredScrollPlace(session: string, scroller: RefObject<HTMLDivElement | null>, items: readonly Item[], virtual: Virtualizer<HTMLDivElement, Element>, stream: SessionStream): void {
  const { isLoaded } = stream;
  const key = `hutch.conversation.${session}`;
  const isPlaced = useRef(false);
  useEffect(() => {
    const element = scroller.current;
    if (isPlaced.current || !isLoaded || !element || items.length === 0) return;
    const stored = JSON.parse(sessionStorage.getItem(key) ?? "null") as Place | null;
    const index = stored ? items.findIndex((item) => item.id === stored.item) : -1;
    if (stored && index < 0) {
      if (!stream.isWhole) return; // the row may come with the whole log
      const { firstSeq } = stream.older;
      if (stored.seq < firstSeq && firstSeq - stored.seq < MAX_RETURN_EVENTS) return void stream.older.load().catch(() => (isPlaced.current = true));
    }
    isPlaced.current = true;
    if (!stored || index < 0) return;
    virtual.scrollToIndex(index, { align: "start" });
    requestAnimationFrame(() => requestAnimationFrame(() => {
      const row = element.querySelector<HTMLElement>(`[data-index="${index}"]`);
      if (row) element.scrollTop += row.getBoundingClientRect().top - element.getBoundingClientRect().top - stored.below;
    }));
  });
  useEffect(() => {
    const leave = () => {
      const element = scroller.current;
      if (!element) return;
      const top = element.getBoundingClientRect().top;
      const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END_PX;
      const row = [...element.querySelectorAll<HTMLElement>("[data-item]")].filter((each) => each.getBoundingClientRect().bottom > top).sort((a, b) => Number(a.dataset["index"]) - Number(b.dataset["index"]))[0];
      if (isAtEnd || !row) sessionStorage.removeItem(key);
      else sessionStorage.setItem(key, JSON.stringify({ item: row.dataset["item"] ?? "", seq: Number(row.dataset["seq"]), below: row.getBoundingClientRect().top - top }));
    };
    const element = scroller.current;
    window.addEventListener("pagehide", leave);
    element?.addEventListener("scrollend", leave);
    return () => {
      window.removeEventListener("pagehide", leave);
      element?.removeEventListener("scrollend", leave);
    };
  }, [key, scroller, isLoaded]);
}

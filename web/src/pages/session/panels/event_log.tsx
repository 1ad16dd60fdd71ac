// The log as it is: every entry, filtered by type or text, and as JSON.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { CopyButton } from "../../../shared/copy_button";
import type { AnyEntry } from "../../../fold/view_types";
import { Field } from "../../../shared/form_controls";
import { SafeText } from "../../../shared/safe_text";
import { strings } from "../../../strings";
import { useSessionContext, useView } from "../session_context";

const ROW_PX = 24;
const NEAR_START_ROWS = 40;

export function Log({ shown }: { shown: boolean }) {
  const { stream } = useSessionContext();
  const view = useView();
  const [filter, setFilter] = useState("");
  const words = useDeferredValue(filter.trim().toLowerCase());
  const [opened, setOpened] = useState<AnyEntry | null>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const seq = shown ? view.seq : 0;
  const { list } = stream.entries;
  const entries = useMemo(
    () => (seq === 0 ? [] : list.filter((entry) => !words || entry.event.type.includes(words) || JSON.stringify(entry.event).toLowerCase().includes(words))),
    [list, words, seq],
  );
  const virtual = useVirtualizer({ count: entries.length, getScrollElement: () => scroller.current, estimateSize: () => ROW_PX, overscan: 12, anchorTo: "end", followOnAppend: true });
  const isNearStart = shown && stream.entries.hasOlder && !stream.entries.isLoading && (virtual.getVirtualItems()[0]?.index ?? 0) < NEAR_START_ROWS;
  const isTouched = useRef(false); // before somebody scrolls or filters, the end is enough
  useEffect(() => {
    if (isNearStart && (isTouched.current || words)) stream.entries.loadOlder().catch((error: unknown) => console.warn("Older events cannot be read.", error));
  }, [stream, isNearStart, words, list]);
  useEffect(() => {
    if (!shown) return;
    return () => stream.entries.close();
  }, [stream, shown]);
  return (
    <div className="flex h-full flex-col">
      <div className="flex h-8 shrink-0 items-center gap-2 border-b px-3">
        <Field value={filter} onChange={(event) => setFilter(event.target.value)} placeholder={strings.panel.filterLog} aria-label={strings.panel.filterLog} className="!h-6 w-64 text-12" />
        <span className="meta">{entries.length.toLocaleString("en")}</span>
        <span className="grow" />
        <CopyButton text={() => JSON.stringify(entries, null, 1)} label={strings.panel.copyJson} />
      </div>
      <div className="flex min-h-0 grow">
        <div ref={scroller} onWheel={() => (isTouched.current = true)} onKeyDown={() => (isTouched.current = true)} onPointerDown={() => (isTouched.current = true)} tabIndex={0} role="group" aria-label={strings.panel.log} className="inset-focus min-w-0 grow overflow-auto font-mono text-12">
          {entries.length === 0 && <p className="p-4 text-center font-sans text-t2">{strings.panel.noEntries}</p>}
          <div className="relative" style={{ height: virtual.getTotalSize() }}>
            {virtual.getVirtualItems().map((item) => {
              const entry = entries[item.index];
              return entry && (
                <button key={entry.seq} type="button" onClick={() => setOpened(opened === entry ? null : entry)} className={`inset-focus absolute inset-x-0 flex h-6 items-center gap-3 px-3 text-left ${opened === entry ? "bg-selected" : "hover:bg-hover"}`} style={{ top: item.start }}>
                  <span className="w-10 shrink-0 text-right text-t3">{entry.seq}</span>
                  <span className="w-16 shrink-0 text-t3 max-sm:hidden">{new Date(entry.at_ms).toLocaleTimeString("en-GB")}</span>
                  <span className="w-44 shrink-0 truncate text-t1 max-sm:w-32">{entry.event.type}</span>
                  <span className="min-w-0 truncate text-t3"><SafeText text={summary(entry)} /></span>
                </button>
              );
            })}
          </div>
        </div>
        {opened && (
          <aside className="w-1/2 shrink-0 overflow-auto border-l bg-code">
            <div className="sticky top-0 flex justify-end border-b bg-code p-1"><CopyButton text={() => JSON.stringify(opened, null, 1)} label={strings.panel.copyJson} /></div>
            <pre tabIndex={0} className="p-2 leading-5 whitespace-pre-wrap [overflow-wrap:anywhere]"><SafeText text={JSON.stringify(opened, null, 1)} /></pre>
          </aside>
        )}
      </div>
    </div>
  );
}

function summary(entry: AnyEntry): string {
  const { event } = entry;
  for (const name of ["path", "command", "text", "prompt", "message", "summary", "reason", "tool", "title", "host"]) {
    const value = event[name];
    if (typeof value === "string" && value && value !== "{}") return value.slice(0, 160).replaceAll("\n", " ");
  }
  return "";
}

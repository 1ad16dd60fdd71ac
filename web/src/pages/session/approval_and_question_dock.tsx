// Open approvals and questions, docked above the composer, the oldest first. The dock never takes the focus by itself.
//
// Ctrl+. goes into the dock, and again to the next one; Esc goes back. After an answer the focus goes back to where it was
// before Ctrl+. was pressed. A user who came by a click stays in the dock, so that the keys of the next card work at once.
import { type KeyboardEvent, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import type { Input } from "../../api/http_client";
import type { Tool } from "../../fold/view_types";
import { callSummary } from "../../display_format";
import { Icon } from "../../shared/icons";
import { usePageCommands } from "../../shared/page_commands";
import { strings } from "../../strings";
import { ApprovalBody, QuestionBody } from "./approval_and_question_card";
import { useSessionContext, useView } from "./session_context";

const AFTER_DIALOG_MS = 50; // a dialog gives the focus back when it closes

export function Docks() {
  const { stream, canWrite } = useSessionContext();
  const view = useView();
  const dock = useRef<HTMLDivElement>(null);
  const before = useRef<HTMLElement | null>(null);
  const keys = useRef<((event: KeyboardEvent) => void) | null>(null);
  const wasInside = useRef(false);
  const [at, setAt] = useState(0);
  const rows = canWrite ? view.pending.map((id) => stream.row(id)).filter((row): row is Tool => row?.kind === "tool") : [];
  const index = rows.length ? at % rows.length : 0;
  const row = rows[index];
  const id = row?.id ?? "";

  const enter = useCallback(() => (dock.current?.querySelector<HTMLElement>("[data-first]") ?? dock.current)?.focus(), []);
  useEffect(() => {
    function jump(event: globalThis.KeyboardEvent) {
      if (event.key !== "." || !(event.ctrlKey || event.metaKey) || !id) return;
      event.preventDefault();
      if (dock.current?.contains(document.activeElement)) return setAt((number) => number + 1);
      before.current = document.activeElement instanceof HTMLElement && document.activeElement !== document.body ? document.activeElement : null;
      enter();
    }
    window.addEventListener("keydown", jump);
    return () => window.removeEventListener("keydown", jump);
  }, [id, enter]);
  useEffect(() => {
    const note = (event: FocusEvent) => { wasInside.current = dock.current?.contains(event.target as Node) ?? false; };
    document.addEventListener("focusin", note);
    return () => document.removeEventListener("focusin", note);
  }, []);
  useLayoutEffect(() => { // a card that is gone takes the focus with it; no button gets it, since Enter may be on its way
    if (wasInside.current && document.activeElement === document.body) dock.current?.focus();
  }, [id]);
  useEffect(() => {
    if (!id || !wantsCard()) return;
    history.replaceState(null, "");
    enter();
  }, [id, enter]);

  const give = (input: Input) => { stream.give(input).catch(() => enter()); }; // the card shows why it is still there
  const approval = row?.approval;
  const about = row && approval ? callSummary(row.tool, approval.summary).slice(0, 80) : "";
  usePageCommands(!row ? [] : row.question ? [{ label: strings.approval.answerIt, detail: row.question.text.slice(0, 80), icon: "question", keys: "Ctrl .", run: () => setTimeout(enter, AFTER_DIALOG_MS) }] : !approval ? [] : [
    { label: strings.approval.once, detail: about, icon: "ask", run: () => give({ type: "approve", call_id: approval.callId, scope: "once" }) },
    ...(approval.covers.length ? [{ label: strings.approval.session, detail: about, icon: "ask" as const, run: () => give({ type: "approve", call_id: approval.callId, scope: "session" }) }] : []),
    { label: strings.approval.deny, detail: about, icon: "cross", run: () => give({ type: "deny", call_id: approval.callId, reason: "" }) },
  ]);

  const leave = useCallback(() => {
    const focused = document.activeElement;
    if (focused !== document.body && !dock.current?.contains(focused)) return; // the person is elsewhere by now
    if (before.current?.isConnected) before.current.focus();
    else dock.current?.focus();
    before.current = null;
  }, []);
  function onKey(event: KeyboardEvent) {
    if (event.key !== "Escape") return keys.current?.(event);
    if (before.current?.isConnected) before.current.focus();
    else (document.activeElement as HTMLElement).blur();
    before.current = null;
  }
  return (
    <div ref={dock} tabIndex={-1} role="group" aria-label={strings.approval.dock} onKeyDown={onKey} className="group outline-none">
      {row && (
        <section aria-label={strings.approval.title(index + 1, rows.length)} className="mx-3 mb-2 flex max-h-[56vh] flex-col rounded-card border border-warn bg-raised group-focus:outline-2 group-focus:outline-offset-1 group-focus:outline-[var(--focus)]" data-ask={row.id}>
          <header className="flex items-center gap-2 rounded-t-card bg-warn-tint px-3 py-1 text-12 text-warn">
            <Icon name={row.question ? "question" : "ask"} size={14} />
            <h2 className="font-semibold">{strings.approval.title(index + 1, rows.length)}</h2>
            <span className="grow" />
            <span className="text-11 group-focus-within:hidden max-sm:hidden">{strings.approval.keysHint}</span>
            {rows.length > 1 && <span className="hidden text-11 group-focus-within:inline max-sm:!hidden">{strings.approval.nextHint}</span>}
          </header>
          {row.question ? <QuestionBody key={row.id} row={row} leave={leave} /> : row.approval && <ApprovalBody key={row.id} row={row} approval={row.approval} leave={leave} keys={keys} />}
        </section>
      )}
    </div>
  );
}

/** True if the person came here to answer: Ctrl+. on another page. */
const wantsCard = () => (history.state as { toCard?: boolean } | null)?.toCard === true;

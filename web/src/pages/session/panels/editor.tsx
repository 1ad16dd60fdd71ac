// Tabs of open files, and the editor of the one in front.
import { EditorView } from "@codemirror/view";
import { useCallback, useEffect, useRef, useState } from "react";
import { useSearchParams } from "wouter";
import { bytes, clock } from "../../../display_format";
import { Button, IconButton } from "../../../shared/form_controls";
import { Icon } from "../../../shared/icons";
import { ProblemLine } from "../../../shared/error_message";
import { SafeText, showHidden } from "../../../shared/safe_text";
import { strings } from "../../../strings";
import type { Breakpoint, Tool } from "../../../fold/view_types";
import { useSessionContext, useView } from "../session_context";
import { RejectButton } from "../undo_dialog";
import { type Following, useAgentEdits } from "./follow_agent_edits";
import { showDebugger } from "./breakpoint_gutter";
import { CAN_DEBUG, setBreakpoints, toggled } from "./debugger_requests";
import { Document } from "./open_documents";
import { keepPlace, storedPlace, useTabs } from "./editor_tabs";
import { type Part, addressOf } from "./unshared_file_reading";

const MAX_ROWS = 80;
const NO_BREAKPOINTS: readonly Breakpoint[] = [];

function parseTarget(target: string): { path: string; line: number } {
  const found = /^(.*?):(\d+)$/.exec(target);
  return found ? { path: found[1] ?? "", line: Number(found[2]) } : { path: target, line: 0 };
}

export function Editor() {
  const { id, me, canEdit: canWrite, documents: channel } = useSessionContext();
  const [params, setParams] = useSearchParams();
  const { path, line } = parseTarget(params.get("file") ?? "");
  const [, renew] = useState(0);
  const [documents] = useState(() => new Map<string, Document>());
  const region = useRef<HTMLDivElement>(null);
  const { tabs, preview, shown, keep, close } = useTabs(id, path);

  const show = useCallback((next: string) => setParams((before) => { const after = new URLSearchParams(before); if (next) after.set("file", next); else after.delete("file"); return after; }, { replace: true }), [setParams]);
  const [before] = useState(path ? "" : shown); // an address without a file opens the one that was shown last
  useEffect(() => {
    if (before) show(before);
  }, [before, show]);
  const closeTab = (closed: string) => {
    const hadFocus = document.activeElement?.closest("[data-tab]") !== null;
    const next = close(closed);
    if (closed === path) show(next);
    if (hadFocus) requestAnimationFrame(() => document.querySelector<HTMLElement>("[data-tab] [aria-pressed=true]")?.focus());
  };
  useEffect(() => {
    for (const [each, document_] of documents) {
      if (tabs.includes(each) && document_.canWrite === canWrite) continue; // access can be given and taken meanwhile
      document_.close();
      documents.delete(each);
    }
  }, [documents, tabs, canWrite]);
  useEffect(() => {
    const all = documents;
    return () => {
      for (const each of all.values()) each.close();
      all.clear();
    };
  }, [documents]);
  useEffect(() => { // not while drawing: what React discards would stay open, and no other could open its path
    if (path && !documents.has(path)) documents.set(path, new Document(id, path, me.id, canWrite, channel, () => renew((count) => count + 1)));
  });
  const document_ = documents.get(path);
  const isTyped = document_?.file.isUnsaved ?? false;
  useEffect(() => { if (isTyped) keep(path); });
  useOthersChanges(documents);
  const following = useAgentEdits(documents, path, show, region);
  return (
    <div className="flex h-full flex-col">
      <div className="flex h-8 shrink-0 border-b bg-frame">
        <div role="group" aria-label={strings.session.openFiles} className="flex min-w-0 grow items-stretch overflow-x-auto">
          {tabs.map((each) => <Tab key={each} path={each} document={documents.get(each)} active={each === path} isPreview={each === preview} show={() => show(each)} keep={() => keep(each)} close={() => closeTab(each)} />)}
        </div>
        <FollowButton following={following} isShowing={path !== ""} />
      </div>
      <div ref={region} className="flex min-h-0 grow flex-col">
        {document_ ? <Body key={path} document={document_} line={line} /> : !path && <p className="grid grow place-items-center p-4 text-t2">{strings.panel.noFile}</p>}
      </div>
    </div>
  );
}

/** The last unseen change of the agent in this file, with a button that reverts it. */
function AgentStrip({ document: doc }: { document: Document }) {
  const view = useView();
  const row = view.rows.slice(-MAX_ROWS).findLast((each): each is Tool => each.kind === "tool" && each.status === "ok" && each.files.some((file) => file.path === doc.path));
  if (!row || row.undone || !doc.isUnseen) return null;
  return (
    <div className="flex h-7 shrink-0 items-center gap-2 border-b bg-agent-tint pr-1 pl-3 text-12 text-agent">
      <span className="min-w-0 grow truncate">{strings.editor.edited(view.persona || strings.session.agent)}</span>
      <RejectButton row={row} />
      <Button kind="quiet" small onClick={() => doc.seen()}>{strings.editor.seen}</Button>
    </div>
  );
}

function FollowButton({ following, isShowing }: { following: Following; isShowing: boolean }) {
  const { run } = useView();
  if (!run) return null;
  return (
    <button type="button" aria-pressed={following.isOn} title={strings.editor.followDetail} onClick={following.toggle} className={`fade m-1 inline-flex h-6 shrink-0 items-center gap-1 rounded-row px-2 text-12 ${following.isOn && isShowing ? "bg-agent-tint text-agent" : "text-t2 hover:bg-hover"}`}>
      <Icon name="spark" size={12} />
      {following.isOn ? (isShowing ? strings.editor.following : strings.editor.followsNext) : strings.editor.follow}
    </button>
  );
}

function useOthersChanges(documents: Map<string, Document>) {
  const view = useView();
  const seen = useRef(new Map<string, number>());
  useEffect(() => {
    for (const [path, each] of documents) {
      const seq = view.files[path]?.seq ?? 0;
      const before = seen.current.get(path);
      seen.current.set(path, seq);
      if (before !== undefined && before !== seq) void each.renew();
    }
  });
}

type TabProps = { path: string; document: Document | undefined; active: boolean; isPreview: boolean; show: () => void; keep: () => void; close: () => void };

function Tab({ path, document: doc, active, isPreview, show, keep, close }: TabProps) {
  const status = doc?.status;
  const savedAtMs = doc?.file.savedAtMs ?? 0;
  const mark = status === "typing" ? "●" : status === "kept" ? "⚠" : savedAtMs ? "✓" : "";
  const words = status === "typing" ? strings.panel.typing : status === "kept" ? strings.panel.keptHere : savedAtMs ? strings.panel.saved(clock(savedAtMs)) : "";
  return (
    <div className={`flex shrink-0 items-center border-r border-b-2 pr-1 ${active ? "border-b-accent bg-panel" : "border-b-transparent"}`} data-tab={path}>
      <button type="button" aria-pressed={active} onClick={show} onDoubleClick={keep} title={showHidden(isPreview ? strings.editor.previewTab(path) : path)} className={`inset-focus flex h-full items-center gap-1.5 px-2 text-12 ${isPreview ? "italic" : ""}`}>
        <SafeText oneLine text={path.split("/").pop() ?? path} />
        {mark && <span title={words} className={mark === "⚠" ? "text-warn" : mark === "✓" ? "text-ok" : "text-t3"}>{mark}<span className="sr-only">{words}</span></span>}
      </button>
      <IconButton icon="cross" size={10} label={strings.panel.closeTab(path)} data-close onClick={close} />
    </div>
  );
}

function Body({ document: doc, line }: { document: Document; line: number }) {
  const { isReadOnly } = useSessionContext();
  const { state } = useView();
  const host = useRef<HTMLDivElement>(null);
  const ready = doc.state !== null;
  const [goesToLine] = useState(line > 0);
  useEffect(() => {
    if (!host.current || !doc.state) return;
    const view = new EditorView({ state: doc.state, parent: host.current });
    doc.view = view;
    const place = goesToLine ? null : storedPlace(doc.session, doc.path);
    if (place) {
      view.dispatch({ selection: { anchor: Math.min(place.head, view.state.doc.length) } });
      requestAnimationFrame(() => { view.scrollDOM.scrollTop = place.top; });
    }
    const leave = () => keepPlace(doc.session, doc.path, { top: view.scrollDOM.scrollTop, head: view.state.selection.main.head });
    window.addEventListener("pagehide", leave);
    return () => {
      leave();
      window.removeEventListener("pagehide", leave);
      doc.state = view.state;
      doc.view = null;
      doc.placeSoon();
      view.destroy();
    };
  }, [doc, ready, goesToLine]);
  useEffect(() => {
    const view = doc.view;
    if (!view || !line) return;
    const target = view.state.doc.line(Math.min(line, view.state.doc.lines));
    view.dispatch({ selection: { anchor: target.from }, effects: EditorView.scrollIntoView(target.from, { y: "center" }) });
  }, [doc, line, ready]);
  useBreakpoints(doc, ready);
  return (
    <div className="flex min-h-0 grow flex-col">
      {doc.error !== null && <div className="p-1"><ProblemLine error={doc.error} /></div>}
      {doc.remark && (!doc.part || doc.file.problem) && !(isReadOnly && !doc.canWrite) && (
        <div role="status" className="flex shrink-0 items-center gap-2 border-b bg-warn-tint px-3 py-1 text-12 text-warn">
          <span className="grow">{doc.readOnlyReason ? `${strings.panel.readOnly}: ` : ""}<SafeText text={doc.remark} /></span>
          {doc.file.problem && doc.status === "kept" && <Button kind="quiet" small onClick={() => doc.file.reopen()}>{strings.error.again}</Button>}
        </div>
      )}
      <AgentStrip document={doc} />
      {doc.part && <PartBar document={doc} part={doc.part} />}
      {doc.isPlain && !doc.part && <p className="meta bg-code px-3 py-1">{strings.panel.plain}</p>}
      {state === "parked" && <p className="meta bg-code px-3 py-1">{strings.panel.parked}</p>}
      <div ref={host} className="ring-inside min-h-0 grow overflow-hidden" />
    </div>
  );
}

/** Show the breakpoints of the file, and the line of the debugger's stop. Users with write access can set them. */
function useBreakpoints(doc: Document, isReady: boolean) {
  const { id, canChange } = useSessionContext();
  const { debug } = useView();
  const breakpoints = debug.breakpoints[doc.path] ?? NO_BREAKPOINTS;
  const stoppedAt = debug.place.path === doc.path ? debug.place.line : 0;
  useEffect(() => {
    const mayToggle = canChange && CAN_DEBUG.test(doc.path);
    const toggle = (line: number) => void setBreakpoints(id, doc.path, toggled(breakpoints, line)).catch((error: unknown) => doc.fail(error));
    doc.view?.dispatch({ effects: showDebugger.of({ breakpoints, stoppedAt, toggle: mayToggle ? toggle : null }) });
  }, [id, doc, isReady, canChange, breakpoints, stoppedAt]);
}

/** The shown part of a file that is too large or no text, with buttons for other parts and a download. */
function PartBar({ document: doc, part }: { document: Document; part: Part }) {
  const isWhole = part.start === 0 && part.end >= part.size;
  const hash = part.etag.replace(/[^0-9a-f]/g, "");
  return (
    <div className="flex shrink-0 flex-wrap items-center gap-x-3 gap-y-1 border-b bg-code px-3 py-1 text-12 text-t2">
      <span>{part.kind === "binary" ? strings.panel.binary(bytes(part.size)) : strings.panel.tooLarge(bytes(part.size))} {!isWhole && strings.panel.part(bytes(part.start), bytes(part.end))}</span>
      {hash && <span className="text-t3" title={`SHA-256 ${hash}`}>SHA-256 <code>{hash.slice(0, 12)}</code></span>}
      <span className="grow" />
      {part.start > 0 && <Button kind="quiet" small onClick={() => void doc.showPage(Math.max(0, part.start - (part.end - part.start)))}>{strings.panel.earlierPart}</Button>}
      {part.end < part.size && <Button kind="quiet" small onClick={() => void doc.showPage(part.end)}>{strings.panel.laterPart}</Button>}
      <a href={`/api/v1${addressOf(doc.session, doc.path)}`} download={showHidden(doc.path.split("/").pop() ?? "")} className="text-link underline">{strings.panel.download}</a>
    </div>
  );
}

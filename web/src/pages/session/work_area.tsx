// The work area: files and editor above, panels below. The address names the open file and panel.
import { Suspense, lazy, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useSearchParams } from "wouter";
import { Boundary } from "../../shared/error_boundary";
import { IconButton } from "../../shared/form_controls";
import type { IconName } from "../../shared/icons";
import { Icon } from "../../shared/icons";
import { Splitter, useFlag, useSize } from "../../shared/panel_splitter";
import { isPressed } from "../../shared/shortcuts";
import { strings } from "../../strings";
import { type Panel, useSessionContext, useView } from "./session_context";
import { Changes } from "./panels/session_diff";
import { Files } from "./panels/file_tree";
import { Log } from "./panels/event_log";
import { Preview } from "./panels/preview_links";
import { TestsPanel } from "./panels/test_tree";
import { areTestsStale } from "./test_result_freshness";
import { useIsPhone, useIsRoomy, useIsWide } from "./window_width_classes";

const Editor = lazy(async () => ({ default: (await import("./panels/editor")).Editor }));
const DebuggerPanel = lazy(async () => ({ default: (await import("./panels/debugger_panel")).DebuggerPanel }));
const Terminals = lazy(async () => ({ default: (await import("./panels/terminals")).Terminals }));

type Tab = Panel | "files" | "editor";
const PANELS: [Panel, string, IconName][] = [["changes", strings.panel.changes, "diff"], ["tests", strings.panel.tests, "test"], ["terminal", strings.panel.terminal, "terminal"], ["debugger", strings.panel.debugger, "bug"], ["preview", strings.panel.preview, "globe"], ["log", strings.panel.log, "log"]];

const PHONE_TABS: [Tab, string, IconName][] = [["files", strings.session.files, "folder"], ["editor", strings.session.editor, "edit"]];

export function WorkArea() {
  const isPhone = useIsPhone();
  const isRoomy = useIsRoomy();
  const { panels } = useSessionContext();
  return isPhone ? <PhoneWork /> : isRoomy && !panels ? <RoomyWork /> : <WideWork />;
}

/** The panels of this page, in its order. */
function useTabs(): typeof PANELS {
  const { panels } = useSessionContext();
  return useMemo(() => panels?.flatMap((name) => PANELS.filter(([each]) => each === name)) ?? PANELS, [panels]);
}

/** One part at a time: on a phone the tree, the editor and the panels are tabs of the same row. */
function PhoneWork() {
  const [params, setParams] = useSearchParams();
  const file = params.get("file") ?? "";
  const requested = params.get("panel") ?? "";
  const tabs = useTabs();
  const all: [Tab, string, IconName][] = [...PHONE_TABS, ...tabs];
  const tab = all.find(([name]) => name === requested)?.[0] ?? (file ? "editor" : tabs[0]?.[0] ?? "changes");
  const choose = (name: Tab) => setParams((before) => { const after = new URLSearchParams(before); after.set("panel", name); return after; }, { replace: true });
  const [shownFile, setShownFile] = useState(file);
  if (file !== shownFile) {
    setShownFile(file);
    if (file && tab !== "editor") queueMicrotask(() => choose("editor"));
  }
  const label = all.find(([name]) => name === tab)?.[1] ?? "";
  return (
    <div className="flex h-full flex-col bg-panel">
      <PanelTabs tabs={all} panel={tab} choose={choose} />
      <section aria-label={label} className="min-h-0 grow">
        <Boundary what={label}><Suspense fallback={null}>{tab === "files" ? <Files /> : tab === "editor" ? <Editor /> : <Content name={tab} shown />}</Suspense></Boundary>
      </section>
    </div>
  );
}

type Choose = (name: Panel) => void;

/** The panel of the address, and how to choose another. */
function usePanel(): [Panel, Choose] {
  const [params, setParams] = useSearchParams();
  const requested = params.get("panel");
  const choose = useCallback((name: Panel) => setParams((before) => { const after = new URLSearchParams(before); after.set("panel", name); return after; }, { replace: true }), [setParams]);
  const tabs = useTabs();
  return [tabs.find(([name]) => name === requested)?.[0] ?? tabs[0]?.[0] ?? "changes", choose];
}

function WideWork() {
  const [filesWidth, setFilesWidth] = useSize("files", 176);
  const [panelHeight, setPanelHeight] = useSize("panel", 300);
  const [isMaximised, maximise] = useFlag("maximised");
  const [isCollapsed, collapse, expand] = useFlag("collapsed");
  const wide = useIsWide();
  const tabs = useTabs();
  const [panel, choose] = usePanel();
  useWorkKeys(maximise, expand);
  const height = isMaximised ? undefined : wide ? panelHeight : Math.min(panelHeight, 320);
  return (
    <div className="flex h-full flex-col">
      {!isMaximised && <div className="flex min-h-0 grow"><FilesPart width={filesWidth} resize={setFilesWidth} /><EditorPart /></div>}
      {!isMaximised && !isCollapsed && <Splitter label={strings.panel.resizePanel} size={panelHeight} min={96} max={Math.max(96, window.innerHeight - 220)} onSize={setPanelHeight} vertical from="end" collapse={collapse} />}
      <div className={`flex flex-col bg-panel ${isMaximised ? "min-h-0 grow" : "shrink-0"}`} style={height === undefined || isCollapsed ? {} : { height }}>
        <Panels tabs={tabs} panel={panel} choose={choose} maximise={maximise} {...(isMaximised ? {} : { collapse, expand, isCollapsed })} />
      </div>
    </div>
  );
}

const BESIDE = PANELS.filter(([name]) => name === "changes" || name === "tests");
const BELOW = PANELS.filter(([name]) => name !== "changes" && name !== "tests");

/** From 1600 px on: changes and tests in a column beside the editor, the other panels below both. */
function RoomyWork() {
  const [filesWidth, setFilesWidth] = useSize("files", 208);
  const [sideWidth, setSideWidth] = useSize("side", 340);
  const [panelHeight, setPanelHeight] = useSize("panel", 300);
  const [isMaximised, maximise] = useFlag("maximised");
  const [isCollapsed, collapse, expand] = useFlag("collapsed");
  const [panel, choose] = usePanel();
  const isBeside = BESIDE.some(([name]) => name === panel);
  const [beside, setBeside] = useState<Panel>(isBeside ? panel : "changes");
  const [below, setBelow] = useState<Panel>(isBeside ? "terminal" : panel);
  if (isBeside && beside !== panel) setBeside(panel);
  if (!isBeside && below !== panel) setBelow(panel);
  useWorkKeys(maximise, expand);
  return (
    <div className="flex h-full">
      <FilesPart width={filesWidth} resize={setFilesWidth} />
      <div className="flex h-full min-w-0 grow flex-col">
        {!isMaximised && (
          <div className="flex min-h-0 grow">
            <EditorPart />
            <Splitter label={strings.panel.resizeSide} size={sideWidth} min={240} max={Math.max(240, window.innerWidth - 1240)} onSize={setSideWidth} from="end" />
            <div className="flex h-full shrink-0 flex-col bg-panel" style={{ width: sideWidth }}><Panels tabs={BESIDE} panel={beside} choose={choose} /></div>
          </div>
        )}
        {!isMaximised && !isCollapsed && <Splitter label={strings.panel.resizePanel} size={panelHeight} min={96} max={Math.max(96, window.innerHeight - 220)} onSize={setPanelHeight} vertical from="end" collapse={collapse} />}
        <div className={`flex flex-col bg-panel ${isMaximised ? "min-h-0 grow" : "shrink-0"}`} style={isMaximised || isCollapsed ? {} : { height: panelHeight }}>
          <Panels tabs={BELOW} panel={below} choose={choose} maximise={maximise} {...(isMaximised ? {} : { collapse, expand, isCollapsed })} />
        </div>
      </div>
    </div>
  );
}

function FilesPart({ width, resize }: { width: number; resize: (width: number) => void }) {
  const [isCollapsed, collapse] = useFlag("files");
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (!isPressed(event, "files") || (event.target instanceof Element && event.target.closest(".xterm"))) return;
      event.preventDefault();
      collapse();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [collapse]);
  if (isCollapsed) return <div className="shrink-0 border-r bg-frame p-1"><IconButton icon="folder" size={14} label={strings.panel.showFiles} aria-expanded="false" aria-keyshortcuts="Control+B" onClick={collapse} /></div>;
  return (
    <>
      <section aria-label={strings.session.files} className="h-full shrink-0 overflow-hidden bg-panel" style={{ width }}><Boundary what={strings.session.files}><Files collapse={collapse} /></Boundary></section>
      <Splitter label={strings.panel.resizeFiles} size={width} min={120} max={420} onSize={resize} collapse={collapse} />
    </>
  );
}

function EditorPart() {
  return <section aria-label={strings.session.editor} className="h-full min-w-0 grow bg-panel"><Boundary what={strings.session.editor}><Suspense fallback={null}><Editor /></Suspense></Boundary></section>;
}

/** Panels in tabs. One that was shown stays as it is while another is. */
type PanelsProps = { tabs: typeof PANELS; panel: Panel; choose: Choose; maximise?: () => void; collapse?: () => void; expand?: () => void; isCollapsed?: boolean };

function Panels({ tabs, panel, choose, maximise, collapse, expand, isCollapsed = false }: PanelsProps) {
  const shown = useRef(panel);
  useEffect(() => { // somebody asked for another: by a link or a command
    if (shown.current !== panel) expand?.();
    shown.current = panel;
  }, [panel, expand]);
  const [visited, setVisited] = useState<ReadonlySet<Panel>>(new Set([panel]));
  if (!visited.has(panel)) setVisited(new Set([...visited, panel]));
  return (
    <>
      <PanelTabs tabs={tabs} panel={panel} choose={(name) => { expand?.(); choose(name); }} isCollapsed={isCollapsed} {...(maximise ? { maximise } : {})} {...(collapse ? { collapse } : {})} />
      <div className={isCollapsed ? "hidden" : "min-h-0 grow"}>
        {tabs.filter(([name]) => visited.has(name)).map(([name, label]) => (
          <section key={name} aria-label={label} className={`h-full ${name === panel ? "" : "hidden"}`}>
            <Boundary what={label}><Suspense fallback={null}><Content name={name} shown={name === panel} /></Suspense></Boundary>
          </section>
        ))}
      </div>
    </>
  );
}

function Content({ name, shown }: { name: Panel; shown: boolean }) {
  switch (name) {
    case "changes": return <Changes />;
    case "tests": return <TestsPanel />;
    case "terminal": return <Terminals shown={shown} />;
    case "debugger": return <DebuggerPanel shown={shown} />;
    case "preview": return <Preview shown={shown} />;
    case "log": return <Log shown={shown} />;
  }
}

type TabsProps<Name> = { tabs: [Name, string, IconName][]; panel: Name; choose: (name: Name) => void; maximise?: () => void; collapse?: () => void; isCollapsed?: boolean };

function PanelTabs<Name extends Tab>({ tabs, panel, choose, maximise, collapse, isCollapsed = false }: TabsProps<Name>) {
  const view = useView();
  const counts: Partial<Record<Tab, string>> = {
    debugger: view.debug.status === "stopped" || view.debug.status === "running" ? "●" : "",
    changes: String(Object.keys(view.files).length || ""),
    tests: view.tests && !view.tests.running && !areTestsStale(view) ? [view.tests.failed && `${view.tests.failed}✗`, `${view.tests.passed}✓`].filter(Boolean).join(" ") : "",
  };
  return (
    <div className="flex min-h-8 shrink-0 items-stretch border-b bg-frame">
      <div role="tablist" aria-label={strings.session.work} className="flex min-w-0 flex-wrap max-sm:grid max-sm:grow max-sm:grid-cols-4">
        {tabs.map(([name, label, icon]) => (
          <button key={name} type="button" role="tab" aria-selected={name === panel && !isCollapsed} onClick={() => choose(name)} onDoubleClick={maximise} className={`fade inset-focus flex h-8 items-center gap-1.5 border-b-2 px-3 text-12 max-[1150px]:px-2 max-sm:justify-center max-sm:px-1 pointer-coarse:h-11 ${name === panel && !isCollapsed ? "border-accent bg-panel text-t1" : "border-transparent text-t2 hover:bg-hover"}`}>
            <Icon name={icon} size={14} className="text-t3 max-[1150px]:hidden" />
            {label}
            {counts[name] && <span className={`text-11 ${name === "tests" && view.tests?.failed && !areTestsStale(view) ? "text-bad" : "text-t3"}`}>{counts[name]}</span>}
          </button>
        ))}
      </div>
      <span className="grow" />
      {collapse && <IconButton icon="down" label={isCollapsed ? strings.panel.expand : strings.panel.collapse} aria-expanded={!isCollapsed} size={14} onClick={collapse} className={`m-1 ${isCollapsed ? "[&_svg]:rotate-180" : ""}`} />}
      {maximise && !isCollapsed && <IconButton icon="max" label={strings.panel.maximise} size={14} onClick={maximise} className="m-1" />}
    </div>
  );
}

const PANEL_KEYS: Record<string, Panel> = { t: "terminal", x: "tests", d: "changes", b: "debugger", p: "preview", l: "log" };

/** The open files of the editor, in the order of their tabs, and which one is shown. */
function editorTabs(): { tabs: HTMLElement[]; shown: number } {
  const tabs = [...document.querySelectorAll<HTMLElement>("[data-tab]")];
  return { tabs, shown: tabs.findIndex((each) => each.querySelector("[aria-pressed=true]")) };
}

function goToTab(step: number): void {
  const { tabs, shown } = editorTabs();
  tabs[(shown + step + tabs.length) % tabs.length]?.querySelector<HTMLElement>("[aria-pressed]")?.click();
  focusEditorSoon();
}

function closeTab(): void {
  const { tabs, shown } = editorTabs();
  tabs[shown]?.querySelector<HTMLElement>("[data-close]")?.click();
  focusEditorSoon();
}

/** The file that is shown now is drawn a moment later. */
function focusEditorSoon(): void {
  setTimeout(() => document.querySelector<HTMLElement>(".cm-content")?.focus(), 50);
}

/** Ctrl+J then a letter, Ctrl+Backquote and Ctrl+Backslash, also from inside a terminal. */
function useWorkKeys(maximise: () => void, expand: () => void) {
  const { showPanel } = useSessionContext();
  const awaitedAt = useRef(0); // of Ctrl+J, also while the page renews what it knows of the session
  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      const mod = event.ctrlKey || event.metaKey;
      const inTerminal = event.target instanceof Element && event.target.closest(".xterm") !== null;
      if (mod && event.code === "Backquote") {
        if (inTerminal) document.querySelector<HTMLElement>("[data-composer]")?.focus();
        else {
          showPanel("terminal");
          expand();
          setTimeout(() => document.querySelector<HTMLElement>(".xterm textarea, [data-open-terminal]")?.focus(), 50);
        }
      } else if (inTerminal) return;
      else if (mod && event.key === "j") awaitedAt.current = event.timeStamp;
      else if (mod && event.key === "\\") maximise();
      else if (awaitedAt.current && event.timeStamp - awaitedAt.current < 1500 && !mod) {
        awaitedAt.current = 0;
        const panel = PANEL_KEYS[event.key];
        if (panel) {
          showPanel(panel);
          expand();
        }
        else if (event.key === "c") document.querySelector<HTMLElement>("[data-composer]")?.focus();
        else if (event.key === "e") document.querySelector<HTMLElement>(".cm-content")?.focus();
        else if (event.key === "]") goToTab(1);
        else if (event.key === "[") goToTab(-1);
        else if (event.key === "w") closeTab();
        else if (event.key === "f") document.querySelector<HTMLElement>("[role=tree]")?.focus();
        else return;
      } else return;
      event.preventDefault();
      event.stopPropagation();
    }
    window.addEventListener("keydown", onKey, true);
    return () => window.removeEventListener("keydown", onKey, true);
  }, [maximise, expand, showPanel]);
}

// Terminals of the session, in tabs. Text of programs changes no clipboard and opens no link by itself.
import "@xterm/xterm/css/xterm.css";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { FitAddon } from "@xterm/addon-fit";
import { type ILinkProvider, Terminal } from "@xterm/xterm";
import { useEffect, useRef, useState } from "react";
import { SearchAddon } from "@xterm/addon-search";
import { type Schemas, get, post, send } from "../../../api/http_client";
import { copyText } from "../../../clipboard";
import { bytes } from "../../../display_format";
import { openPalette } from "../../../shared/command_palette_keys";
import { Button, Field, IconButton, Keys } from "../../../shared/form_controls";
import { ProblemLine } from "../../../shared/error_message";
import { SafeText } from "../../../shared/safe_text";
import { openLink, targetOf, terminalTheme } from "../../../shared/terminal_theme_and_links";
import { strings } from "../../../strings";
import { useSessionContext, useView } from "../session_context";
import { TerminalConnection } from "./terminal_connection";

export function Terminals({ shown }: { shown: boolean }) {
  const { id, canChange: canWrite } = useSessionContext();
  const queries = useQueryClient();
  const [chosen, setChosen] = useState("");
  const [focused, setFocused] = useState(""); // opened here by the person, so it gets the focus
  const [error, setError] = useState<unknown>(null);
  const { terminals: opened } = useView(); // by anybody
  const list = useQuery({ queryKey: ["terminals", id, opened], queryFn: async () => (await get<Schemas["Terminals"]>(`/sessions/${id}/terminals`)).items, placeholderData: (before) => before });
  const open = async () => {
    setError(null);
    try {
      const made = await post<Schemas["Terminal"]>(`/sessions/${id}/terminals`, { columns: 100, rows: 24, program: "bash" });
      await queries.invalidateQueries({ queryKey: ["terminals", id] });
      setChosen(made.id);
      setFocused(made.id);
    } catch (failed) {
      setError(failed);
    }
  };
  const close = async (terminal: string) => {
    await send(`/sessions/${id}/terminals/${terminal}`, { method: "DELETE" }).catch(setError);
    await queries.invalidateQueries({ queryKey: ["terminals", id] });
  };
  const terminals = list.data ?? [];
  const current = terminals.find((each) => each.id === chosen) ?? terminals[0];
  return (
    <div className="flex h-full flex-col">
      <div className="flex h-7 shrink-0 items-center overflow-x-auto border-b px-1 pointer-coarse:h-11">
        {terminals.map((each) => (
          <span key={each.id} className={`flex shrink-0 items-center rounded-row ${each.id === current?.id ? "bg-selected" : ""}`}>
            <button type="button" aria-pressed={each.id === current?.id} onClick={() => setChosen(each.id)} className="inset-focus h-6 px-2 text-12 pointer-coarse:h-11">{strings.panel.terminal} {each.id}</button>
            {canWrite && <IconButton icon="cross" size={10} label={`${strings.panel.closeTerminal} ${each.id}`} onClick={() => void close(each.id)} />}
          </span>
        ))}
        {canWrite && <IconButton icon="plus" size={14} label={strings.panel.newTerminal} onClick={() => void open()} />}
      </div>
      {(error !== null || list.isError) && <div className="p-2"><ProblemLine error={error ?? list.error} /></div>}
      {current ? <Screen key={current.id} session={id} terminal={current.id} shown={shown} canWrite={canWrite} takesFocus={focused === current.id} openAnother={() => void open()} /> : list.isSuccess && (
        <div className="grid grow place-items-center text-center text-t2"><div><p>{strings.panel.noTerminal}</p>{canWrite && <Button className="mt-3" icon="terminal" data-open-terminal onClick={() => void open()}>{strings.panel.newTerminal}</Button>}</div></div>
      )}
    </div>
  );
}

type ScreenProps = { session: string; terminal: string; shown: boolean; canWrite: boolean; takesFocus: boolean; openAnother: () => void };

function Screen({ session, terminal, shown, canWrite, takesFocus, openAnother }: ScreenProps) {
  const host = useRef<HTMLDivElement>(null);
  const fitter = useRef<FitAddon | null>(null);
  const [tools, setTools] = useState<Tools | null>(null);
  const [isFinding, setFinding] = useState(false);
  const [target, setTarget] = useState(""); // of the link under the pointer
  const [connection, setConnection] = useState<TerminalConnection | null>(null);
  const [, renew] = useState(0);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    let ended = false;
    let cleanUp = () => {};
    // A cell is measured once, so its font must be there first.
    void document.fonts.load('13px "Hutch Mono"').then(() => {
      if (ended) return;
      const screen = new Terminal({ fontFamily: '"Hutch Mono", "DejaVu Sans Mono", monospace', fontSize: 13, scrollback: 5000, theme: terminalTheme(), minimumContrastRatio: 4.5, disableStdin: !canWrite, linkHandler: { activate: openLink, hover: (_, address) => setTarget(targetOf(address)), leave: () => setTarget(""), allowNonHttpProtocols: false } });
      const fit = new FitAddon();
      fitter.current = fit;
      screen.loadAddon(fit);
      const finder = new SearchAddon();
      screen.loadAddon(finder);
      screen.open(element);
      fit.fit();
      if (takesFocus) screen.focus();
      setTools({ screen, finder });
      screen.registerLinkProvider(addressLinks(screen, setTarget));
      screen.parser.registerOscHandler(52, () => true); // programs get no clipboard
      const made = new TerminalConnection(`/sessions/${session}/terminals/${terminal}`, screen, () => renew((count) => count + 1));
      setConnection(made);
      screen.onData((text) => made.type(text));
      screen.onResize(() => made.resize());
      screen.attachCustomKeyEventHandler((event) => handleKey(event, screen, () => setFinding(true)));
      const askBeforePaste = (event: ClipboardEvent) => {
        const lines = (event.clipboardData?.getData("text/plain") ?? "").trimEnd().split(/\r\n?|\n/).length;
        if (lines < 2 || screen.modes.bracketedPasteMode || window.confirm(strings.terminal.pasteLines(lines))) return;
        event.preventDefault();
        event.stopPropagation();
      };
      element.addEventListener("paste", askBeforePaste, { capture: true });
      const resized = new ResizeObserver(() => element.offsetParent !== null && fit.fit());
      resized.observe(element);
      const recolour = () => (screen.options.theme = terminalTheme());
      const media = matchMedia("(prefers-color-scheme: dark)");
      media.addEventListener("change", recolour);
      window.addEventListener("hutch:theme", recolour);
      cleanUp = () => {
        resized.disconnect();
        element.removeEventListener("paste", askBeforePaste, { capture: true });
        media.removeEventListener("change", recolour);
        window.removeEventListener("hutch:theme", recolour);
        made.close();
        screen.dispose();
      };
    });
    return () => {
      ended = true;
      cleanUp();
    };
  }, [session, terminal, canWrite, takesFocus]);
  useEffect(() => {
    if (shown) fitter.current?.fit();
  }, [shown]);
  const status = connection?.status;
  const hasEnded = status?.exit !== undefined;
  const writer = hasEnded ? null : status?.writer;
  const takeOver = () => {
    connection?.takeOver();
    tools?.screen.focus(); // who takes over wants to type
  };
  return (
    <>
      <div className={`flex h-6 shrink-0 items-center gap-2 px-3 text-12 text-t3 pointer-coarse:h-11 ${writer?.agent ? "bg-warn-tint text-warn" : ""}`}>
        <span>{hasEnded ? strings.panel.ended(status.exit ?? null, status.limit) : !status?.connected ? strings.panel.reconnecting : writer?.agent ? strings.panel.agentTypes : writer?.mode === "one" ? (writer.you ? strings.panel.youType : strings.panel.types(writer.name)) : strings.panel.nobodyTypes}</span>
        {Boolean(status?.missedBytes) && <span>{strings.panel.missed(bytes(status?.missedBytes ?? 0))}</span>}
        {status?.refused && <span className="text-bad"><SafeText text={status.refused} /></span>}
        {target && <span className="min-w-0 truncate" title={target}>{strings.terminal.leadsTo} <code className="text-t1"><SafeText text={target} /></code></span>}
        <span className="grow" />
        {hasEnded && canWrite && <Button small icon="terminal" onClick={openAnother}>{strings.panel.newTerminal}</Button>}
        <span title={strings.panel.leaveDetail} className="shrink-0 max-md:hidden"><Keys keys="F6" /> {strings.panel.leaveTerminal}</span>
        <IconButton icon="list" size={12} label={strings.nav.palette} onClick={openPalette} />
        {tools && <IconButton icon="search" size={12} label={strings.terminal.find} onClick={() => setFinding(true)} />}
        {canWrite && connection && writer?.mode === "one" && !writer.you && <Button small onClick={takeOver}>{strings.panel.takeOver}</Button>}
        {canWrite && connection && writer?.mode === "one" && writer.you && <Button small kind="quiet" onClick={connection.share}>{strings.panel.share}</Button>}
        {canWrite && connection && writer?.mode === "many" && <Button small kind="quiet" onClick={takeOver}>{strings.panel.takeOver}</Button>}
      </div>
      {isFinding && tools && <FindBar tools={tools} onClose={() => { setFinding(false); tools.finder.clearDecorations(); tools.screen.focus(); }} />}
      <div ref={host} role="group" aria-label={strings.panel.terminalLabel} className="min-h-0 grow ring-inside overflow-hidden pl-2" />
    </>
  );
}

type Tools = { screen: Terminal; finder: SearchAddon };

function FindBar({ tools, onClose }: { tools: Tools; onClose: () => void }) {
  const [isMissing, setMissing] = useState(false);
  const find = (text: string, back: boolean) => setMissing(Boolean(text) && !(back ? tools.finder.findPrevious(text) : tools.finder.findNext(text)));
  return (
    <div role="search" className="flex h-8 shrink-0 items-center gap-2 border-b px-3">
      <Field autoFocus aria-label={strings.terminal.find} placeholder={strings.terminal.find} className="!h-6 w-64 text-12" onChange={(event) => find(event.target.value, true)} onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
        else if (event.key === "Enter") find(event.currentTarget.value, !event.shiftKey);
      }} />
      {isMissing && <span role="status" className="text-12 text-warn">{strings.terminal.notFound}</span>}
      <span className="grow" />
      <IconButton icon="cross" size={12} label={strings.session.cancel} onClick={onClose} />
    </div>
  );
}

const ADDRESS = /https?:\/\/[^\s"'<>`]+[^\s"'<>`.,;:!?)\]}]/g;

/** Addresses that programs print. They open with Ctrl and a click, after the whole address was shown. */
function addressLinks(screen: Terminal, onHover: (target: string) => void): ILinkProvider {
  return {
    provideLinks: (y, callback) => {
      const line = screen.buffer.active.getLine(y - 1)?.translateToString(true) ?? "";
      callback([...line.matchAll(ADDRESS)].map((found) => ({
        text: found[0],
        range: { start: { x: found.index + 1, y }, end: { x: found.index + found[0].length, y } },
        activate: openLink,
        hover: (_, text) => onHover(targetOf(text)),
        leave: () => onHover(""),
      })));
    },
  };
}

/** False: the terminal leaves this key to the page. */
function handleKey(event: KeyboardEvent, screen: Terminal, find: () => void): boolean {
  if (event.type !== "keydown") return true;
  if (event.ctrlKey && event.shiftKey && event.key.toLowerCase() === "f") {
    event.preventDefault();
    find();
    return false;
  }
  if (event.key === "F6" || (event.ctrlKey && (event.code === "Backquote" || event.key === "."))) return false;
  if (event.ctrlKey && event.shiftKey && event.key.toLowerCase() === "c") {
    void copyText(screen.getSelection());
    event.preventDefault();
    return false;
  }
  if (event.ctrlKey && !event.shiftKey && event.key === "c" && screen.hasSelection()) {
    void copyText(screen.getSelection());
    screen.clearSelection();
    return false;
  }
  return !(event.ctrlKey && event.shiftKey && event.key.toLowerCase() === "v"); // the browser pastes
}

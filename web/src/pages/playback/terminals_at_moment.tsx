// The output of the terminals up to a moment. Text of programs changes no clipboard and opens no link by itself.
import "@xterm/xterm/css/xterm.css";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { useEffect, useRef, useState } from "react";
import { openLink, terminalTheme } from "../../shared/terminal_theme_and_links";
import { text } from "../../strings/playback";
import { type Output, SHELLS } from "./terminal_output_chunks";
import type { Recording } from "./playback_events";

const MAX_CHARS = 200_000; // written again after a jump

export function MomentTerminal({ recording, seq }: { recording: Recording; seq: number }) {
  const [chosen, setChosen] = useState("");
  const lastOf = (list: Output[]) => list.findLast((each) => each.seq <= seq)?.seq ?? 0;
  const sources = [...recording.outputs].map(([name, list]) => ({ name, last: lastOf(list) })).filter((each) => each.last > 0);
  const newest = sources.reduce<{ name: string; last: number } | null>((best, each) => (best && best.last > each.last ? best : each), null);
  const current = sources.find((each) => each.name === chosen)?.name ?? newest?.name;
  if (current === undefined) return <p className="m-auto p-4 text-t2">{text.noTerminal}</p>;
  return (
    <div className="flex h-full min-h-0 flex-col">
      {sources.length > 1 && (
        <div className="flex h-7 shrink-0 items-center gap-1 border-b px-1">
          {sources.map(({ name }) => (
            <button key={name} type="button" aria-pressed={name === current} onClick={() => setChosen(name === chosen ? "" : name)} className={`h-6 rounded-row px-2 text-12 ${name === current ? "bg-selected" : "text-t2 hover:bg-hover"}`}>{name === SHELLS ? text.shell : text.terminalTab(name)}</button>
          ))}
        </div>
      )}
      <Screen key={current} outputs={recording.outputs.get(current) ?? []} seq={seq} fits={current === SHELLS} />
    </div>
  );
}

function Screen({ outputs, seq, fits }: { outputs: Output[]; seq: number; fits: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const written = useRef(0); // chunks that the screen has
  const [screen, setScreen] = useState<Terminal | null>(null);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    let cleanUp = () => {};
    let ended = false;
    // A cell is measured once, so its font must be there first.
    void document.fonts.load('12px "Hutch Mono"').then(() => {
      if (ended) return;
      const made = new Terminal({ fontFamily: '"Hutch Mono", "DejaVu Sans Mono", monospace', fontSize: 12, scrollback: 5000, theme: terminalTheme(), minimumContrastRatio: 4.5, disableStdin: true, cursorInactiveStyle: "none", linkHandler: { activate: openLink, allowNonHttpProtocols: false } });
      const fit = new FitAddon();
      made.loadAddon(fit);
      made.open(element);
      made.attachCustomKeyEventHandler(() => false); // keys are those of the page
      const resized = new ResizeObserver(() => fits && element.offsetParent !== null && fit.fit());
      resized.observe(element);
      const recolour = () => (made.options.theme = terminalTheme());
      const media = matchMedia("(prefers-color-scheme: dark)");
      media.addEventListener("change", recolour);
      window.addEventListener("hutch:theme", recolour);
      written.current = 0;
      setScreen(made);
      cleanUp = () => {
        resized.disconnect();
        media.removeEventListener("change", recolour);
        window.removeEventListener("hutch:theme", recolour);
        made.dispose();
      };
    });
    return () => {
      ended = true;
      cleanUp();
    };
  }, [fits]);
  useEffect(() => {
    if (!screen) return;
    let end = written.current;
    while (end < outputs.length && (outputs[end]?.seq ?? 0) <= seq) end += 1;
    while (end > 0 && (outputs[end - 1]?.seq ?? 0) > seq) end -= 1;
    if (end === written.current) return;
    let start = written.current;
    if (end < start || charsOf(outputs, start, end) > MAX_CHARS) {
      screen.reset();
      start = end;
      for (let chars = 0; start > 0 && chars < MAX_CHARS; start -= 1) chars += outputs[start - 1]?.text.length ?? 0;
    }
    for (const each of outputs.slice(start, end)) {
      if (each.columns) screen.resize(Math.min(400, each.columns), Math.min(200, each.rows));
      else screen.write(each.text);
    }
    written.current = end;
  }, [screen, outputs, seq, outputs.length]);
  return <div ref={host} role="group" aria-label={text.terminal} className="min-h-0 grow overflow-auto bg-panel p-1 pl-2" />;
}

const charsOf = (outputs: Output[], start: number, end: number) => outputs.slice(start, end).reduce((sum, each) => sum + each.text.length, 0);

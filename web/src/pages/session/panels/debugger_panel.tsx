// The debugger that everyone in the session shares: its program, stop, stack and variables. One user drives.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { useSearchParams } from "wouter";
import { type Schemas, get, post } from "../../../api/http_client";
import type { Debugger } from "../../../fold/view_types";
import { ProblemLine } from "../../../shared/error_message";
import { Button, Field, IconButton } from "../../../shared/form_controls";
import { SafeText } from "../../../shared/safe_text";
import { text } from "../../../strings/debugger";
import { useSessionContext, useView } from "../session_context";
import { CAN_DEBUG, isTest, setBreakpoints, startDebugger } from "./debugger_requests";

const MAX_PARTS = 100;
const STEPS = [["continue", text.go], ["next", text.next], ["step_in", text.into], ["step_out", text.out]] as const;

export function DebuggerPanel({ shown }: { shown: boolean }) {
  const { id, openFile } = useSessionContext();
  const { debug } = useView();
  const [error, setError] = useState<unknown>(null);
  const followed = useRef("");
  const { path, line } = debug.place;
  const stop = `${debug.id}/${debug.stop}`;
  useEffect(() => {
    if (!shown || !path || followed.current === stop) return;
    followed.current = stop;
    openFile(path, line);
  }, [shown, path, line, stop, openFile]);
  const act = (request: Promise<unknown>) => { setError(null); request.catch(setError); };
  return (
    <div className="flex h-full flex-col text-12">
      <Bar act={act} />
      {error !== null && <div className="p-2"><ProblemLine error={error} /></div>}
      <div className="grid min-h-0 grow grid-cols-[minmax(0,2fr)_minmax(0,3fr)_minmax(0,2fr)] overflow-hidden max-sm:grid-cols-1 max-sm:overflow-auto">
        <Part label={text.stack}>{debug.status === "stopped" ? <Stopped key={stop} session={id} debug={debug} /> : <Breakpoints act={act} />}</Part>
        <Part label={text.variables}>{debug.status === "stopped" && <Frame key={stop} />}</Part>
        <Part label={text.output}><Output text={debug.output} /></Part>
      </div>
    </div>
  );
}

function Part({ label, children }: { label: string; children: ReactNode }) {
  return <section aria-label={label} className="flex min-h-0 min-w-0 flex-col border-r last:border-r-0"><h2 className="shrink-0 px-3 pt-1.5 text-11 font-semibold text-t3">{label}</h2><div className="min-h-0 grow overflow-auto px-3 py-1">{children}</div></section>;
}

/** The debugged program, and the buttons of its driver. */
function Bar({ act }: { act: (request: Promise<unknown>) => void }) {
  const { id, me, canChange, nameOf } = useSessionContext();
  const { debug } = useView();
  const [params] = useSearchParams();
  const [isStarting, setStarting] = useState(false);
  const file = (params.get("file") ?? "").replace(/:\d+$/, "");
  const name = file.split("/").pop() ?? "";
  const isOpen = debug.status === "running" || debug.status === "stopped";
  const isDriver = canChange && debug.driver === me.id;
  const start = () => {
    setStarting(true);
    act(startDebugger(id, file).finally(() => setStarting(false)));
  };
  return (
    <div className="flex min-h-8 shrink-0 flex-wrap items-center gap-x-2 gap-y-1 border-b px-3 py-1">
      {!isOpen && canChange && CAN_DEBUG.test(file) && <Button small icon="bug" disabled={isStarting} onClick={start}>{isTest(file) ? text.startTests(name) : text.start(name)}</Button>}
      {!isOpen && canChange && !CAN_DEBUG.test(file) && <span className="text-t2">{text.noFile}</span>}
      {isOpen && isDriver && (
        <>
          {debug.status === "stopped" && STEPS.map(([action, label]) => <Button key={action} small kind={action === "continue" ? "primary" : "plain"} onClick={() => act(post(`/sessions/${id}/debugger/control`, { action }))}>{label}</Button>)}
          {debug.status === "running" && <Button small icon="pause" onClick={() => act(post(`/sessions/${id}/debugger/control`, { action: "pause" }))}>{text.pause}</Button>}
          <Button small kind="quiet" icon="stop" title={text.stopTitle} onClick={() => act(post(`/sessions/${id}/debugger`, {}, "DELETE"))}>{text.stop}</Button>
        </>
      )}
      <span role="status" className="flex min-w-0 flex-wrap items-center gap-x-2"><State debug={debug} isStarting={isStarting} /></span>
      <span className="grow" />
      {isOpen && <span className="text-t2">{debug.driver === me.id ? text.youDrive : <SafeText text={text.drives(nameOf(debug.driver))} />}</span>}
      {isOpen && canChange && !isDriver && <Button small onClick={() => act(post(`/sessions/${id}/debugger/drive`))}>{text.takeOver}</Button>}
    </div>
  );
}

function State({ debug, isStarting }: { debug: Debugger; isStarting: boolean }) {
  const command = debug.command && <code className="min-w-0 truncate text-t3"><SafeText text={debug.command} /></code>;
  if (isStarting && debug.status !== "stopped") return <span className="text-t2">{text.starting}</span>;
  switch (debug.status) {
    case "none": return <span className="text-t3">{text.how}</span>;
    case "running": return <><span className="text-info">{text.running}</span>{command}</>;
    case "ended": return <><span className="text-t2">{text.ended}{debug.exitCode === null ? "" : `, ${text.exitCode(debug.exitCode)}`}{debug.reason && <> · <SafeText text={debug.reason} /></>}</span>{command}</>;
    case "stopped": return <><span className="font-semibold text-warn">{debug.place.path ? <>{text.stoppedAt} <SafeText text={`${debug.place.path}:${debug.place.line}`} /></> : text.outside}</span><span className="text-t2"><SafeText text={text.reasons[debug.reason] ?? debug.reason} />{debug.text && <>: <SafeText text={debug.text} /></>}</span></>;
  }
}

function Breakpoints({ act }: { act: (request: Promise<unknown>) => void }) {
  const { id, canChange, openFile } = useSessionContext();
  const { breakpoints } = useView().debug;
  const all = Object.entries(breakpoints).flatMap(([path, lines]) => lines.map((each) => ({ path, ...each })));
  if (all.length === 0) return <p className="text-t3">{text.noBreakpoints}</p>;
  return (
    <ul aria-label={text.breakpoints}>
      {all.map(({ path, line, condition }) => (
        <li key={`${path}:${line}`} className="flex h-6 items-center gap-2">
          <button type="button" onClick={() => openFile(path, line)} className="min-w-0 truncate text-left hover:underline"><SafeText text={`${path}:${line}`} />{condition && <span className="text-t3"> <SafeText text={text.onlyIf(condition)} /></span>}</button>
          <span className="grow" />
          {canChange && <IconButton icon="cross" size={10} label={text.remove(`${path}:${line}`)} onClick={() => act(setBreakpoints(id, path, (breakpoints[path] ?? []).filter((each) => each.line !== line)))} />}
        </li>
      ))}
    </ul>
  );
}

function useStack(session: string, debug: Debugger) {
  return useQuery({ queryKey: ["debugger-stack", session, debug.id, debug.stop], queryFn: async () => (await get<Schemas["Stack"]>(`/sessions/${session}/debugger/stack?limit=50`)).items });
}

function Stopped({ session, debug }: { session: string; debug: Debugger }) {
  const { openFile } = useSessionContext();
  const stack = useStack(session, debug);
  const [chosen, choose] = useFrame(debug);
  return (
    <>
      {stack.isError && <ProblemLine error={stack.error} retry={() => void stack.refetch()} />}
      <ol>
        {stack.data?.map((each, depth) => {
          const isChosen = chosen === each.id || (chosen === 0 && depth === 0);
          const place = each.path ? `${each.path}:${each.line}` : each.outside;
          return (
            <li key={each.id}>
              <button type="button" aria-pressed={isChosen} onClick={() => { choose(each.id); if (each.path) openFile(each.path, each.line); }} className={`inset-focus flex h-6 w-full items-center gap-2 rounded-row px-1.5 text-left ${isChosen ? "bg-selected" : "hover:bg-hover"} ${each.path ? "" : "text-t3"}`}>
                <span className="truncate font-mono"><SafeText text={each.name} /></span><span className="ml-auto truncate text-t3"><SafeText text={place} /></span>
              </button>
            </li>
          );
        })}
      </ol>
    </>
  );
}

/** The frame that this viewer looks at, at this stop; 0 is the innermost. */
function useFrame(debug: Debugger): [number, (frame: number) => void] {
  const [params, setParams] = useSearchParams();
  const [at, frame] = (params.get("frame") ?? "").split("-");
  const current = `${debug.stop}`;
  return [at === current ? Number(frame) || 0 : 0, (next) => setParams((before) => { const after = new URLSearchParams(before); after.set("frame", `${current}-${next}`); return after; }, { replace: true })];
}

function Frame() {
  const { id, me, canChange } = useSessionContext();
  const { debug } = useView();
  const [frame] = useFrame(debug);
  const [expression, setExpression] = useState("");
  const [result, setResult] = useState<Schemas["Variable"] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [changes, setChanges] = useState(0);
  const scopes = useQuery({ queryKey: ["debugger-frame", id, debug.id, debug.stop, frame, changes], queryFn: async () => (await get<Schemas["Variables"]>(`/sessions/${id}/debugger/variables?frame=${frame}`)).items, placeholderData: keepPreviousData });
  const evaluate = (event: FormEvent) => {
    event.preventDefault();
    setError(null);
    post<Schemas["Variable"]>(`/sessions/${id}/debugger/evaluate`, { expression, frame }).then((found) => { setResult(found); setChanges((count) => count + 1); }, (failed: unknown) => { setResult(null); setError(failed); });
  };
  return (
    <>
      {scopes.isError && <ProblemLine error={scopes.error} retry={() => void scopes.refetch()} />}
      {scopes.data?.map((each, at) => <Value key={`${each.name}${changes}`} variable={each} isOpen={at === 0} />)}
      {canChange && debug.driver === me.id && (
        <form onSubmit={evaluate} className="mt-2 flex gap-2"><Field aria-label={text.evaluate} placeholder={text.evaluate} maxLength={2000} value={expression} onChange={(event) => setExpression(event.target.value)} className="min-w-0 grow font-mono" /><Button small type="submit" disabled={!expression.trim()}>{text.run}</Button></form>
      )}
      {result && <Value variable={result} isOpen={false} />}
      {error !== null && <ProblemLine error={error} />}
    </>
  );
}

/** A variable, and its parts if it is open. */
function Value({ variable, isOpen: wasOpen }: { variable: Schemas["Variable"]; isOpen: boolean }) {
  const { id } = useSessionContext();
  const [isOpen, setOpen] = useState(wasOpen);
  const [count, setCount] = useState(MAX_PARTS);
  const { name, value, type, reference } = variable;
  const parts = useQuery({ queryKey: ["debugger-parts", id, reference, count], enabled: isOpen && reference > 0, gcTime: 0, staleTime: 0, queryFn: async () => (await get<Schemas["Variables"]>(`/sessions/${id}/debugger/variables?reference=${reference}&limit=${count}`)).items, placeholderData: keepPreviousData });
  const words = <><span className={value ? "text-t2" : "font-semibold text-t2"}><SafeText text={name} /></span>{value && <> = <span className="font-mono break-all text-t1" title={type}><SafeText text={value} /></span></>}</>;
  return (
    <div className="leading-5">
      {reference > 0 ? <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} className="inset-focus max-w-full text-left"><span aria-hidden="true" className="inline-block w-3 text-t3">{isOpen ? "▾" : "▸"}</span>{words}</button> : <p className="pl-3">{words}</p>}
      {isOpen && reference > 0 && (
        <div className="pl-3">
          {parts.isError && <ProblemLine error={parts.error} />}
          {parts.data?.map((each, at) => <Value key={`${at}${each.name}`} variable={each} isOpen={false} />)}
          {parts.data?.length === 0 && <p className="pl-3 text-t3">{text.noVariables}</p>}
          {parts.data?.length === count && count < 500 && <button type="button" onClick={() => setCount(500)} className="pl-3 text-link underline">{text.more}</button>}
        </div>
      )}
    </div>
  );
}

function Output({ text: printed }: { text: string }) {
  const end = useRef<HTMLPreElement>(null);
  useEffect(() => { end.current?.scrollIntoView({ block: "end" }); }, [printed]);
  if (!printed) return <p className="text-t3">{text.noOutput}</p>;
  return <pre ref={end} className="font-mono leading-5 break-words whitespace-pre-wrap"><SafeText text={printed} /></pre>;
}

// The tests of the session as a tree of files and tests, failing ones first, with durations, history and buttons that
// run them. A result from before the last change of a file says so.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState } from "react";
import { type Schemas, get, post } from "../../../api/http_client";
import { useTestSuites } from "../../../api/queries";
import { ago, seconds } from "../../../display_format";
import { Button, IconButton } from "../../../shared/form_controls";
import { Icon } from "../../../shared/icons";
import { useNow } from "../../../shared/current_time";
import { ProblemLine } from "../../../shared/error_message";
import { SafeText, showHidden } from "../../../shared/safe_text";
import { strings } from "../../../strings";
import { text as debuggerText } from "../../../strings/debugger";
import { useSessionContext, useView } from "../session_context";
import { areTestsStale } from "../test_result_freshness";
import { CAN_DEBUG, startDebugger, testIn } from "./debugger_requests";
import { type Result, readResults, runsToMerge } from "./merged_test_results";
import { testsSummary } from "../tool_row";

type Node = { key: string } & ({ kind: "file"; file: string; tests: Result[]; open: boolean } | { kind: "test"; test: Result });
const ORDER = { failed: 0, skipped: 1, passed: 2 };
const MARK = { failed: ["cross", "text-bad"], passed: ["check", "text-ok"], skipped: ["more", "text-t3"] } as const;

export function TestsPanel() {
  const { id, canChange: canWrite } = useSessionContext();
  const view = useView();
  const now = useNow();
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const [folds, setFolds] = useState<ReadonlyMap<string, boolean>>(new Map());
  const current = view.tests;
  const isStale = areTestsStale(view);
  const runs = useQuery({ queryKey: ["tests", id, current?.testRun, current?.running], queryFn: async () => (await get<Schemas["TestRunPage"]>(`/sessions/${id}/tests?limit=10`)).items, placeholderData: (before) => before });
  const newest = runs.data?.find((each) => each.state !== "running");
  const merged = runsToMerge(runs.data ?? []);
  const cases = useQuery({ queryKey: ["test-cases", id, merged.map((each) => each.id).join()], enabled: merged.length > 0, queryFn: () => readResults(id, merged), placeholderData: (before) => before });
  const nodes = useMemo(() => nodesOf(cases.data ?? [], folds), [cases.data, folds]);
  const older = cases.data?.filter((each) => each.isOlder).length ?? 0;
  const run = (body: Partial<Schemas["TestsIn"]>) => {
    setError(null);
    post(`/sessions/${id}/tests`, { wait_s: 0, ...body }).then(() => queries.invalidateQueries({ queryKey: ["tests", id] }), setError);
  };
  return (
    <div className="flex h-full flex-col">
      <div className="flex min-h-8 shrink-0 flex-wrap items-center gap-x-2 gap-y-1 border-b px-3 py-1 text-12 whitespace-nowrap">
        {canWrite && <Button small icon="play" onClick={() => run({})}>{strings.panel.runAll}</Button>}
        {canWrite && Boolean(newest?.failed) && <Button small icon="retry" onClick={() => run({ failed: true })}>{strings.panel.runFailed}</Button>}
        {current?.running && <><span className="dot-running size-1.5 rounded-full bg-info" /><span className="min-w-0 max-w-full truncate font-mono text-t3"><SafeText text={current.lastLine || current.command} /></span></>}
        {current?.running && canWrite && <Button small kind="quiet" onClick={() => void post(`/sessions/${id}/tests/${current.testRun}/cancel`).catch(setError)}>{strings.panel.cancelTests}</Button>}
        {current && !current.running && <span className={isStale ? "text-t3" : current.ok ? "text-ok" : "text-bad"}>{testsSummary(current)}</span>}
        {current && !current.running && older > 0 && <span className="text-t3">{strings.tests.partial(cases.data?.length ?? 0, older)}</span>}
        {isStale && <span className="text-warn"><SafeText text={strings.tests.stale(view.lastChange?.path ?? "")} /></span>}
        <span className="grow" />
        {newest && <History runs={runs.data ?? []} />}
        {newest && <span className="text-t3">{ago(newest.ended_ms, now)}</span>}
      </div>
      {error !== null && <div className="p-2"><ProblemLine error={error} /></div>}
      {runs.isSuccess && runs.data.length === 0 && !current?.running && (
        <NoRuns run={() => run({})} />
      )}
      {newest?.reason && <p className="px-3 py-1 whitespace-pre-wrap text-bad"><SafeText text={newest.reason} /></p>}
      <Tree nodes={nodes} isStale={isStale} run={run} toggle={(file, open) => setFolds(new Map(folds).set(file, !open))} />
    </div>
  );
}

/** Before the first run: which tests there are, and the command that would run them. */
function NoRuns({ run }: { run: () => void }) {
  const { id, canChange: canWrite } = useSessionContext();
  const suites = useTestSuites(id, true);
  if (!suites.isSuccess && !suites.isError) return null;
  const found = suites.data ?? [];
  return (
    <div className="p-4 text-center text-t2">
      <p>{found.length || suites.isError ? strings.panel.noTests : strings.panel.noTestsFound}</p>
      {found.length > 0 && (
        <ul className="mx-auto mt-1 w-fit max-w-full text-left text-12">
          {found.map((each) => <li key={each.command}><span className="font-semibold text-t1"><SafeText text={each.name} /></span> {strings.tests.foundIn(each.directory)}: <code className="break-words"><SafeText text={each.command} /></code></li>)}
        </ul>
      )}
      {suites.isError && <div className="mx-auto mt-2 w-fit"><ProblemLine error={suites.error} retry={() => void suites.refetch()} /></div>}
      {canWrite && (found.length > 0 || suites.isError) && <Button className="mt-3" icon="play" onClick={run}>{strings.panel.runAll}</Button>}
      {found.length === 0 && suites.isSuccess && <p className="meta mt-2">{strings.panel.noTestsDetail}</p>}
    </div>
  );
}

/** Files with failing tests first, each open if one fails or there are few. */
function nodesOf(cases: readonly Result[], folds: ReadonlyMap<string, boolean>): Node[] {
  const groups = new Map<string, Result[]>();
  for (const each of cases.toSorted((a, b) => ORDER[a.outcome] - ORDER[b.outcome])) {
    const file = each.file || each.suite;
    const list = groups.get(file);
    if (list) list.push(each);
    else groups.set(file, [each]);
  }
  return [...groups].flatMap(([file, tests]): Node[] => {
    const open = folds.get(file) ?? (tests[0]?.outcome === "failed" || cases.length <= 50);
    const head: Node = { kind: "file", key: `file:${file}`, file, tests, open };
    return open ? [head, ...tests.map((test): Node => ({ kind: "test", key: `test:${test.key}`, test }))] : [head];
  });
}

type TreeProps = { nodes: Node[]; isStale: boolean; run: (body: Partial<Schemas["TestsIn"]>) => void; toggle: (file: string, open: boolean) => void };

function Tree({ nodes, isStale, run, toggle }: TreeProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: nodes.length, getScrollElement: () => scroller.current, getItemKey: (index) => nodes[index]?.key ?? index, estimateSize: () => 24, overscan: 10 });
  return (
    <div ref={scroller} className="min-h-0 grow overflow-auto py-1">
      <div className="relative" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const node = nodes[item.index];
          return node && (
            <div key={item.key} data-index={item.index} ref={virtual.measureElement} className="absolute inset-x-0 top-0" style={{ transform: `translateY(${item.start}px)` }}>
              {node.kind === "file" ? <FileRow node={node} run={() => run({ files: [node.file] })} toggle={() => toggle(node.file, node.open)} /> : <CaseRow test={node.test} isStale={isStale || node.test.isOlder} run={() => run({ tests: [node.test.name] })} />}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function FileRow({ node, run, toggle }: { node: Extract<Node, { kind: "file" }>; run: () => void; toggle: () => void }) {
  const { canChange: canWrite } = useSessionContext();
  const failed = node.tests.filter((each) => each.outcome === "failed").length;
  return (
    <div className="group flex h-6 items-center gap-2 px-3 text-12 pointer-coarse:h-11">
      <button type="button" aria-expanded={node.open} onClick={toggle} className="inset-focus flex min-w-0 items-center gap-2 text-left font-semibold text-t2">
        <Icon name="chevron" size={12} className={`text-t3 ${node.open ? "rotate-90" : ""}`} />
        <span className="truncate"><SafeText text={node.file} /></span>
      </button>
      <span className="whitespace-nowrap text-t3">{strings.session.failedPassed(failed, node.tests.filter((each) => each.outcome === "passed").length)} · {seconds(node.tests.reduce((sum, each) => sum + each.duration_s, 0))}</span>
      {canWrite && <span className="opacity-0 group-focus-within:opacity-100 group-hover:opacity-100 pointer-coarse:opacity-100"><IconButton icon="play" size={12} label={`${strings.panel.runTest}: ${node.file}`} onClick={run} /></span>}
    </div>
  );
}

/** The last runs as ticks; each says its outcome in words too. */
function History({ runs }: { runs: Schemas["TestRun"][] }) {
  return (
    <ol className="flex items-center gap-0.5" aria-label={strings.tests.lastRuns}>
      {runs.filter((each) => each.state === "passed" || each.state === "failed").toReversed().map((each) => <Tick key={each.id} outcome={each.state === "passed" ? "passed" : "failed"} title={strings.session.failedPassed(each.failed, each.passed)} />)}
    </ol>
  );
}

function Tick({ outcome, title }: { outcome: "failed" | "passed" | "skipped"; title: string }) {
  const [icon, tone] = MARK[outcome];
  return <li title={title} className={tone}><Icon name={icon} size={10} /><span className="sr-only">{title}</span></li>;
}

function CaseRow({ test, isStale, run }: { test: Result; isStale: boolean; run: () => void }) {
  const { id, openFile, showPanel, canChange: canWrite } = useSessionContext();
  const [open, setOpen] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const debug = () => {
    setError(null);
    startDebugger(id, test.file, testIn(test.file, test.name)).then(() => showPanel("debugger"), setError);
  };
  const [icon, tone] = MARK[test.outcome];
  const place = test.file ? `${test.file}${test.line ? `:${test.line}` : ""}` : "";
  return (
    <div className="group px-3 pl-7">
      <div className="relative flex h-6 items-center gap-2 pointer-coarse:h-11">
        <Icon name={icon} size={12} className={isStale ? "text-t3" : tone} />
        <button type="button" title={place ? strings.tests.open(showHidden(place)) : showHidden(test.name)} onClick={() => test.file && openFile(test.file, test.line || 1)} className="min-w-0 truncate rounded-row text-left hover:underline"><SafeText text={test.name.split(".").slice(-1)[0] ?? test.name} /></button>
        <span className="sr-only">{test.outcome}</span>
        {test.isOlder && <span className="shrink-0 text-11 text-t3">{strings.tests.older}</span>}
        <span className="grow" />
        <span className="absolute right-14 flex bg-panel opacity-0 group-focus-within:opacity-100 group-hover:opacity-100 pointer-coarse:static pointer-coarse:opacity-100">
          <IconButton icon="log" size={12} label={`${strings.tests.history}: ${test.name}`} aria-expanded={open} onClick={() => setOpen(!open)} />
          {canWrite && CAN_DEBUG.test(test.file) && <IconButton icon="bug" size={12} label={`${debuggerText.startTest}: ${test.name}`} onClick={debug} />}
          {canWrite && <IconButton icon="play" size={12} label={`${strings.panel.runTest}: ${test.name}`} onClick={run} />}
        </span>
        <span className="w-14 shrink-0 text-right text-12 text-t3 max-sm:hidden">{seconds(test.duration_s)}</span>
      </div>
      {error !== null && <ProblemLine error={error} />}
      {open && <CaseHistory test={test} />}
      {test.outcome === "failed" && test.message && (
        <div className="mb-1 ml-5 rounded-row border bg-code px-2 py-1">
          {place && <button type="button" onClick={() => openFile(test.file, test.line || 1)} className="font-mono text-12 text-link underline"><SafeText text={place} /></button>}
          <pre tabIndex={0} className="max-h-32 overflow-auto leading-5 whitespace-pre-wrap text-t2"><SafeText text={test.message} /></pre>
        </div>
      )}
    </div>
  );
}

function CaseHistory({ test }: { test: Result }) {
  const { id } = useSessionContext();
  const past = useQuery({ queryKey: ["test-history", id, test.suite, test.name, test.number], queryFn: async () => (await get<Schemas["History"]>(`/sessions/${id}/tests/history?name=${encodeURIComponent(test.name)}&suite=${encodeURIComponent(test.suite)}&limit=10`)).items });
  return (
    <div className="mb-1 ml-5 flex items-center gap-2 text-12 text-t2">
      {past.isError && <ProblemLine error={past.error} />}
      {past.data && (
        <ol className="flex flex-wrap items-center gap-x-3 gap-y-1">
          {past.data.map((each) => <li key={each.test_run} className={`flex items-center gap-1 ${MARK[each.outcome][1]}`}><Icon name={MARK[each.outcome][0]} size={10} />{strings.tests.outcome[each.outcome]} · {seconds(each.duration_s)}</li>)}
        </ol>
      )}
    </div>
  );
}

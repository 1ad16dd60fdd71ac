// The conversation and the tests up to a moment, one compact row each. A row leads to its own moment.
import { type ReactNode, useEffect, useRef } from "react";
import type { Row, Tests, Tool, View } from "../../fold/view_types";
import { callSummary, clock, seconds } from "../../display_format";
import { Badge } from "../../shared/form_controls";
import { Icon, type IconName } from "../../shared/icons";
import { Markdown } from "../../shared/markdown";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { text } from "../../strings/playback";

const MAX_ROWS = 80;
const NEAR_END_PX = 48;

type Props = { view: View; seq: number; nameOf: (by: string) => string; go: (seq: number) => void };

export function ConversationAtMoment({ view, seq, nameOf, go }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const element = scroller.current;
    if (element && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [seq, view.rows.length]);
  const rows = view.rows.slice(-MAX_ROWS);
  return (
    <div ref={scroller} role="log" aria-live="off" aria-label={text.talk} tabIndex={0} className="inset-focus h-full overflow-y-auto" onScroll={(event) => {
      const element = event.currentTarget;
      atEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END_PX;
    }}>
      {rows.length === 0 && <p className="p-4 text-t2">{text.nothingSaid}</p>}
      {rows.map((row) => (
        <div key={row.id} data-seq={row.seq} className={row.undone ? "opacity-60" : ""}>{shown(row, nameOf, () => go(row.seq))}</div>
      ))}
    </div>
  );
}

function shown(row: Row, nameOf: (by: string) => string, go: () => void): ReactNode {
  switch (row.kind) {
    case "prompt":
      return <ConversationEntry who={nameOf(row.by)} atMs={row.atMs} go={go} badge={row.state === "queued" ? "" : strings.session.outcome[row.outcome || row.state] ?? ""} tone={row.outcome === "done" ? "ok" : row.outcome ? "bad" : "info"} prompt><SafeText text={row.text} /></ConversationEntry>;
    case "message":
      return <ConversationEntry who={nameOf(row.by || (row.author === "user" ? "" : row.author))} atMs={row.atMs} go={go}><SafeText text={row.text} /></ConversationEntry>;
    case "reply":
      return row.text ? <div className="px-3 py-1.5"><Markdown text={row.text} /></div> : null;
    case "tool":
      return <ToolLine row={row} go={go} />;
    case "command":
      return <Line icon="terminal" go={go} what={row.command.text} result={row.command.ended ? strings.session.exit(row.command.exitCode ?? -1) : strings.session.testsRunning} bad={row.command.ended && row.command.exitCode !== 0} />;
    case "tests":
      return <Line icon="test" go={go} what={row.tests.command} result={summary(row.tests)} bad={!row.tests.running && !row.tests.ok} />;
    case "note":
      return <Line icon={row.tone === "ok" ? "check" : row.tone === "info" ? "log" : "ask"} go={go} what={[strings.session.note[row.what] ?? row.what, row.text].filter(Boolean).join(": ")} result="" bad={row.tone === "bad"} />;
  }
}

function ConversationEntry({ who, atMs, go, badge = "", tone = "info", prompt = false, children }: { who: string; atMs: number; go: () => void; badge?: string; tone?: "ok" | "bad" | "info"; prompt?: boolean; children: ReactNode }) {
  return (
    <article className={`px-3 py-2 ${prompt ? "border-y bg-code first:border-t-0" : ""}`}>
      <header className="flex items-center gap-2 text-12 text-t3">
        <button type="button" onClick={go} className="font-semibold text-t1 hover:underline"><SafeText text={who} /></button>
        <time>{clock(atMs)}</time>
        <span className="grow" />
        {badge && <Badge tone={tone}>{badge}</Badge>}
      </header>
      <div className="mt-0.5 max-w-[72ch] text-14 break-words whitespace-pre-wrap">{children}</div>
    </article>
  );
}

const ICONS: Record<string, IconName> = { bash: "terminal", run_tests: "test", read_file: "file", grep: "search", glob: "search", edit_file: "edit", write_file: "edit", apply_patch: "edit", ask_user: "question" };

function ToolLine({ row, go }: { row: Tool; go: () => void }) {
  const asks = row.status === "asking";
  const result = row.approval?.answer ? (row.approval.answer === "allowed" ? strings.approval.allowed(row.approval.scope, "") : strings.approval.denied("")).replace(/ by $/, "") : "";
  return (
    <>
      <Line icon={ICONS[row.tool] ?? "spark"} go={go} what={targetOf(row)} running={row.status === "running"}
        result={asks ? strings.state.waiting : row.tests ? summary(row.tests) : row.status === "ok" || row.status === "failed" ? [result, seconds(row.durationS)].filter(Boolean).join(" · ") : ""}
        bad={row.status === "failed"} warn={asks} />
      {asks && <p className="mx-3 mb-1 rounded-row bg-warn-tint px-2 py-1 text-warn"><SafeText text={text.waits(row.question?.text ?? (row.approval ? callSummary(row.tool, row.approval.summary) : ""))} /></p>}
    </>
  );
}

/** The subject of a call: the first of its arguments that names one. */
function targetOf(row: Tool): string {
  try {
    const args = JSON.parse(row.arguments || "{}") as Record<string, unknown>;
    for (const name of ["path", "command", "pattern", "question", "title"]) {
      if (typeof args[name] === "string" && args[name]) return name === "command" ? args[name] : `${row.tool} ${args[name]}`;
    }
  } catch {
    // half of the arguments
  }
  return row.tool;
}

const summary = (tests: Tests) => (tests.running ? strings.session.testsRunning : strings.session.failedPassed(tests.failed, tests.passed));

function Line({ icon, go, what, result, bad = false, warn = false, running = false }: { icon: IconName; go: () => void; what: string; result: string; bad?: boolean; warn?: boolean; running?: boolean }) {
  return (
    <button type="button" onClick={go} className="fade inset-focus flex min-h-7 w-full items-center gap-2 px-3 text-left hover:bg-hover">
      <Icon name={icon} size={14} className={bad ? "text-bad" : warn ? "text-warn" : "text-t3"} />
      <span className={`min-w-0 grow truncate ${running ? "text-t1" : "text-t2"}`}><SafeText text={what.split("\n")[0] ?? ""} /></span>
      <span className={`text-12 whitespace-nowrap ${bad ? "text-bad" : warn ? "text-warn" : "text-t3"}`}>{result}</span>
    </button>
  );
}

export function MomentTests({ view }: { view: View }) {
  const tests = view.tests;
  if (!tests) return <p className="m-auto p-4 text-t2">{text.noTests}</p>;
  return (
    <div className="h-full overflow-auto p-3">
      <p className="flex items-center gap-2">
        <Badge tone={tests.running ? "info" : tests.ok ? "ok" : "bad"}>{tests.running ? text.testsRunning : strings.session.failedPassed(tests.failed, tests.passed)}</Badge>
        {!tests.running && <span className="meta">{[strings.session.fixedBroke(tests.fixed, tests.broke), seconds(tests.durationS)].filter(Boolean).join(" · ")}</span>}
      </p>
      <p className="meta mt-1"><code><SafeText text={tests.command} /></code></p>
      {tests.cases.length > 0 && (
        <ul aria-label={text.failing} className="mt-2 space-y-2">
          {tests.cases.map((each) => (
            <li key={`${each.suite}:${each.name}`}>
              <p className="flex items-center gap-2"><Icon name="cross" size={12} className="text-bad" /><b className="min-w-0 break-all"><SafeText text={each.name} /></b>{each.file && <span className="meta"><SafeText text={`${each.file}:${each.line}`} /></span>}</p>
              {each.message && <pre tabIndex={0} className="mt-0.5 overflow-x-auto pl-5 text-12 text-t2"><SafeText text={each.message.slice(0, 2000)} /></pre>}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

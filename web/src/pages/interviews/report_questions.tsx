// The facts about each question of the report: tests, prompts, the AI's work, authors of the text, pauses, pastes.
import { useQuery } from "@tanstack/react-query";
import { Fragment, type ReactNode } from "react";
import { Link } from "wouter";
import { get } from "../../api/http_client";
import { clock as timeOfDay, dollars, tokens } from "../../number_and_time_format";
import { ProblemLine } from "../../shared/error_message";
import { SafeText } from "../../shared/safe_text";
import { text as all } from "../../strings/interviews";
import { duration } from "./interview_clock";

const text = all.reportPage;
type Mark = { name: string; points: number; computed: number; evidence: number[]; reason: string; overridden: { by: string; comment: string } | null };
type Workspace = {
  session: string; language: string; tests: { seq: number; at_ms: number; passed: number; failed: number; aided: boolean }[]; first_all_passed_seq: number | null; marks: Mark[];
  pauses: { after_seq: number; seconds: number; next_seq: number }[]; authors: Record<string, number>;
  ai: { replies: number; input_tokens: number; output_tokens: number; cost_usd: number | null; calls: Record<string, number>; test_runs: number; changed_files: number };
};
type ReportedQuestion = { number: number; title: string; minutes: number | null; used_ms: number; workspaces: Workspace[]; help: { offered: number; accepted: number; dismissed: number } };
type Report = { names: Record<string, string>; marks: Record<string, string>; note: string; questions: ReportedQuestion[] };

export function Part({ title, children }: { title: string; children: ReactNode }) {
  return <section aria-label={title} className="print-part"><h2 className="mb-2 border-b pb-1 text-16 font-semibold"><SafeText text={title} /></h2>{children}</section>;
}

export function Moment({ workspace, seq }: { workspace: string; seq: number }) {
  if (!workspace || !seq) return null;
  return <Link href={`/s/${workspace}/play?at=${seq}`} className="text-link underline">{text.moment} {seq}</Link>;
}

export function QuestionFacts({ id, nameOf }: { id: string; nameOf: (by: string) => string }) {
  const report = useQuery({ queryKey: ["report", id], queryFn: () => get<Report>(`/interviews/${id}/report`) });
  if (report.isError) return <ProblemLine error={report.error} retry={() => void report.refetch()} />;
  if (!report.data) return <p role="status" className="text-t2">{text.reading}</p>;
  const { questions, marks, names } = report.data;
  const known = (by: string) => names[by] ?? nameOf(by);
  return questions.map((each) => (
    <Part key={each.number} title={`${all.question} ${each.number}: ${each.title}`}>
      <p className="text-t2">{each.minutes ? text.used_(duration(each.used_ms), each.minutes) : duration(each.used_ms)} · {text.help}: {each.help.offered}, {each.help.accepted}, {each.help.dismissed}</p>
      {each.workspaces.map((workspace) => <WorkspaceFacts key={workspace.session} workspace={workspace} meanings={marks} nameOf={known} />)}
    </Part>
  ));
}

function Row({ name, children }: { name: string; children: ReactNode }) {
  return <div className="contents"><dt className="text-t2">{name}</dt><dd className="min-w-0">{children}</dd></div>;
}

function WorkspaceFacts({ workspace, meanings, nameOf }: { workspace: Workspace; meanings: Record<string, string>; nameOf: (by: string) => string }) {
  const { session, tests, ai } = workspace;
  const calls = Object.entries(ai.calls).map(([name, count]) => `${name} ${count}`).join(", ");
  return (
    <div className="mt-3">
      <h3 className="font-semibold"><Link href={`/s/${session}/play`} className="text-link underline">{workspace.language}</Link></h3>
      <dl className="mt-1 grid grid-cols-[auto_1fr] gap-x-6 gap-y-1 max-sm:grid-cols-1">
        <Row name={text.tests}>
          {tests.length === 0 ? text.none : <ol>{tests.map((run) => <li key={run.seq}><span className="text-12 text-t3">{timeOfDay(run.at_ms)}</span> <span className={run.failed ? "text-bad" : "text-ok"}>{run.failed ? "✗" : "✓"} {text.passed(run.passed, run.failed)}</span> <span className="text-12 text-t2">{run.aided ? text.aided : text.own}</span> <Moment workspace={session} seq={run.seq} /></li>)}</ol>}
          {workspace.first_all_passed_seq !== null && <p>{text.firstPassed} <Moment workspace={session} seq={workspace.first_all_passed_seq} /></p>}
        </Row>
        <Row name={text.authorship}><Authors authors={workspace.authors} nameOf={nameOf} /></Row>
        <Row name={text.ai}>
          {ai.replies === 0 ? text.none : <>{text.replies} {ai.replies} · {text.tokens} {tokens(ai.input_tokens)}, {tokens(ai.output_tokens)}{ai.cost_usd !== null && ` · ${dollars(ai.cost_usd)}`}{calls && <> · {text.calls}: <SafeText text={calls} /></>} · {text.aiTests} {ai.test_runs} · {text.aiFiles} {ai.changed_files}</>}
        </Row>
        {ai.replies > 0 && workspace.marks.length > 0 && <Row name={text.marks}><Marks marks={workspace.marks} meanings={meanings} session={session} nameOf={nameOf} /></Row>}
        {workspace.pauses.length > 0 && <Row name={text.pauses}><ol>{workspace.pauses.map((each) => <li key={each.after_seq}>{text.pause(each.seconds)} <Moment workspace={session} seq={each.after_seq} /></li>)}</ol></Row>}
      </dl>
    </div>
  );
}

function Marks({ marks, meanings, session, nameOf }: { marks: Mark[]; meanings: Record<string, string>; session: string; nameOf: (by: string) => string }) {
  return (
    <ul>
      {marks.map((each) => (
        <li key={each.name}>
          <span className="font-semibold">{each.points} / 2</span> <SafeText text={meanings[each.name] ?? each.name} />
          {each.overridden && <span className="text-12 text-t2"> · <SafeText text={text.overridden(nameOf(each.overridden.by))} />{each.overridden.comment && <>: <SafeText text={each.overridden.comment} /></>}</span>}
          {each.evidence.map((seq) => <Fragment key={seq}> <Moment workspace={session} seq={seq} /></Fragment>)}
        </li>
      ))}
    </ul>
  );
}

/** Shares of the text as it is at the end, in words and as a bar. */
function Authors({ authors, nameOf }: { authors: Record<string, number>; nameOf: (by: string) => string }) {
  const all = Object.entries(authors).filter(([, count]) => count > 0).toSorted(([, a], [, b]) => b - a);
  const sum = all.reduce((total, [, count]) => total + count, 0);
  if (sum === 0) return text.none;
  return <ul>{all.map(([by, count]) => <li key={by}><SafeText text={text.authors[by] ?? nameOf(by)} />: {text.chars(count, Math.round((100 * count) / sum))}</li>)}</ul>;
}

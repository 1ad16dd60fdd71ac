// The card of an open approval with its scopes, or of a question with its answer.
import { type KeyboardEvent, type RefObject, type SubmitEvent, useEffect, useState } from "react";
import { Link } from "wouter";
import type { Approval, Helper, Tool } from "../../fold/view_types";
import { Button, Field } from "../../shared/form_controls";
import { ProblemLine } from "../../shared/error_message";
import { SafeText, showHidden } from "../../shared/safe_text";
import { strings } from "../../strings";
import { text as helperText } from "../../strings/helper_agents_and_tries";
import { asProblem } from "../../api/http_client";
import { useTestSuites } from "../../api/queries";
import { RequestedEdit, isEdit } from "./requested_edit";
import { useSessionContext, useView } from "./session_context";
import { argumentsOf } from "./conversation_items";

const DEAF_MS = 500; // keys and clicks that were meant for something else
const MAX_SHOWN_CHARS = 8000;

/** The approval or question in the row of its call, after the answer. */
export function QuestionInConversation({ row }: { row: Tool }) {
  const { nameOf, canWrite } = useSessionContext();
  const view = useView();
  if (row.approval?.answer) {
    const { answer, scope, by, rule, covers, helper } = row.approval;
    // An answer in this session does not bind helpers that start later.
    const canExtend = helper === null && answer === "allowed" && scope === "once" && covers.length > 0 && canWrite && view.state !== "ended";
    return (
      <div className="meta ml-6 pb-1">
        {helper && <><HelperLink helper={helper} /> · </>}
        <SafeText text={answer === "allowed" ? strings.approval.allowed(scope, nameOf(by)) : strings.approval.denied(nameOf(by))} />
        {rule && <> · <SafeText text={strings.approval.rule(rule)} /></>}
        {canExtend && <> · <ExtendButton callId={row.approval.callId} covers={covers.join(", ")} /></>}
        {answer === "allowed" && scope === "always" && <> · <Link href="/settings/approvals" className="text-link underline">{strings.approval.withdraw}</Link></>}
      </div>
    );
  }
  if (row.question?.answered) return <p className="ml-6 pb-1 text-13"><SafeText text={strings.approval.answered(nameOf(row.question.by), row.question.answer)} /></p>;
  return null;
}

/** The session of a helper, which works in files of its own. */
function HelperLink({ helper }: { helper: Helper }) {
  return <Link href={`/s/${helper.session}`} className="text-link underline"><SafeText text={helperText.open(helperText.nameOf(helper.name))} /></Link>;
}

/** Extends an approval from one call to the session. */
function ExtendButton({ callId, covers }: { callId: string; covers: string }) {
  const { stream } = useSessionContext();
  const [isSent, setSent] = useState(false);
  const [error, setError] = useState<unknown>(null);
  function extend() {
    setSent(true);
    setError(null);
    stream.give({ type: "extend", call_id: callId }).catch((failed: unknown) => { setSent(false); setError(failed); });
  }
  return (
    <>
      <button type="button" disabled={isSent} title={showHidden(strings.approval.sessionCovers(covers))} aria-label={strings.approval.extendLabel(covers)} onClick={extend} className="rounded-row text-link underline pointer-coarse:min-h-11">{strings.approval.extend}</button>
      {error !== null && <ProblemLine error={error} />}
    </>
  );
}

/** `keys` gets the card's handler of keys, which works wherever in the dock the focus is. */
type BodyProps = { row: Tool; approval: Approval; leave: () => void; keys: RefObject<((event: KeyboardEvent) => void) | null> };

export function ApprovalBody({ row, approval, leave, keys }: BodyProps) {
  const { id, stream } = useSessionContext();
  const view = useView();
  const [error, setError] = useState<unknown>(null);
  const [reason, setReason] = useState("");
  const [isReady, setReady] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setReady(true), DEAF_MS);
    return () => clearTimeout(timer);
  }, []);
  const covers = approval.covers.join(", ");
  const answer = (input: Parameters<typeof stream.give>[0]) => {
    if (!isReady) return;
    setError(null);
    stream.give(input).then(leave, (failed: unknown) => {
      if (asProblem(failed).status !== 409) setError(failed); // answered elsewhere: the log says by whom
    });
  };
  const allow = (scope: "once" | "session" | "always") => answer({ type: "approve", call_id: approval.callId, scope });
  const deny = () => answer({ type: "deny", call_id: approval.callId, reason });
  function onKey(event: KeyboardEvent) {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.target instanceof HTMLInputElement) return;
    if (event.key === "1") allow("once");
    else if (event.key === "2" && covers) allow("session");
    else if (event.key === "3" && covers) allow("always");
    else if (event.key === "d") deny();
    else return;
    event.preventDefault();
  }
  useEffect(() => {
    keys.current = onKey;
    return () => { keys.current = null; };
  });
  const choices: ["once" | "session" | "always", string, string][] = [["once", strings.approval.once, strings.approval.onceCovers], ["session", strings.approval.session, strings.approval.sessionCovers(covers)], ["always", strings.approval.always, strings.approval.alwaysCovers(covers)]];
  return (
    <div className="flex min-h-0 flex-col gap-2 p-3" data-ready={isReady}>
      <p className="text-12 text-t3"><SafeText text={strings.approval.asks(approval.helper ? helperText.nameOf(approval.helper.name) : view.persona || strings.session.agent, row.tool)} /> · {approval.helper && <><HelperLink helper={approval.helper} /> · </>}<SafeText text={strings.approval.why(approval.rule, approval.source)} /></p>
      {isEdit(row) ? <RequestedEdit row={row} session={approval.helper?.session ?? id} whole={<Whole text={wholeOf(row, approval.summary)} />} /> : row.tool === "run_tests" ? <RequestedTests row={row} session={approval.helper?.session ?? id} /> : <Whole text={wholeOf(row, approval.summary)} />}
      {approval.approvers.length > 0 && <p className="meta">{strings.approval.approvers(approval.approvers.join(", "))}</p>}
      {error !== null && <ProblemLine error={error} />}
      <div className="flex shrink-0 flex-wrap items-center gap-1.5">
        {choices.slice(0, covers ? 3 : 1).map(([scope, label, says], index) => (
          <Button key={scope} {...(index === 0 ? { kind: "primary" as const, "data-first": true } : {})} title={showHidden(says)} keys={String(index + 1)} aria-disabled={!isReady} onClick={() => allow(scope)}>{label}</Button>
        ))}
        <Button kind="danger" keys="d" aria-disabled={!isReady} onClick={deny}>{strings.approval.deny}</Button>
        <Field value={reason} onChange={(event) => setReason(event.target.value)} placeholder={strings.approval.reason} aria-label={strings.approval.reason} className="min-w-24 grow" />
      </div>
      <p className="meta shrink-0">{covers ? <SafeText text={`${strings.approval.session}: ${strings.approval.sessionCovers(covers)}. ${strings.approval.always}: ${strings.approval.alwaysCovers(covers)}.`} /> : strings.approval.onlyOnce}</p>
    </div>
  );
}

/** All of it up to a maximum; beyond that it says how much is missing, and shows the end too. */
function Whole({ text }: { text: string }) {
  const cut = text.length - MAX_SHOWN_CHARS;
  const half = MAX_SHOWN_CHARS / 2;
  return (
    <pre tabIndex={0} className="min-h-7 shrink overflow-auto rounded-row border bg-code px-2 py-1 leading-5 whitespace-pre-wrap [overflow-wrap:anywhere]">
      {cut <= 0 ? <SafeText text={text} /> : <><SafeText text={text.slice(0, half)} /><span className="mx-1 rounded-row bg-warn-tint px-1 text-warn">{strings.diff.longLine(cut)}</span><SafeText text={text.slice(-half)} /></>}
    </pre>
  );
}

/** The commands of the tests that a call wants to run. */
function RequestedTests({ row, session }: { row: Tool; session: string }) {
  const suites = useTestSuites(session, true);
  const commands = suites.data?.map((each) => each.command) ?? [];
  const chosen = Object.values(argumentsOf(row)).flat().filter((each): each is string => typeof each === "string" && each !== "");
  return (
    <>
      <p>{chosen.length ? strings.approval.someTests : strings.approval.allTests}</p>
      <Whole text={[...(commands.length ? commands : [row.tool]), ...chosen.map((each) => `  ${each}`)].join("\n")} />
    </>
  );
}

/** The call as a person reads it: its command, or its arguments one by one. */
function wholeOf(row: Tool, summary: string): string {
  const args = argumentsOf(row);
  if (typeof args["command"] === "string") return args["command"];
  const lines = Object.entries(args).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value, null, 2)}`);
  return lines.join("\n") || (summary && summary !== "{}" ? summary : strings.approval.noArguments(row.tool));
}

export function QuestionBody({ row, leave }: { row: Tool; leave: () => void }) {
  const { stream } = useSessionContext();
  const [error, setError] = useState<unknown>(null);
  const question = row.question;
  if (!question) return null;
  function submit(event: SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget).get("answer") ?? "").trim();
    if (!text || !question) return;
    stream.give({ type: "answer", call_id: question.callId, text }).then(leave, setError);
  }
  return (
    <form onSubmit={submit} className="flex min-h-0 flex-col gap-2 p-3">
      <div className="min-h-0 overflow-auto text-14 whitespace-pre-wrap"><SafeText text={question.text} /></div>
      {error !== null && <ProblemLine error={error} />}
      {question.choices.length > 0 && (
        <div className="flex max-h-24 flex-wrap gap-1.5 overflow-auto">
          {question.choices.map((choice) => <Button key={choice} onClick={() => { stream.give({ type: "answer", call_id: question.callId, text: choice }).then(leave, setError); }}><SafeText text={choice} /></Button>)}
        </div>
      )}
      <div className="flex gap-2">
        <Field name="answer" data-first autoComplete="off" aria-label={strings.approval.answerHint} placeholder={strings.approval.answerHint} className="grow" />
        <Button type="submit" kind="primary">{strings.approval.answer}</Button>
      </div>
    </form>
  );
}

// Beside the live view: the level of help, hidden tests, private notes, messages, the rating and the history.
import { type KeyboardEvent, type ReactNode, useEffect, useState } from "react";
import { Link } from "wouter";
import type { Schemas } from "../../api/http_client";
import { clock as timeOfDay } from "../../display_format";
import { ProblemLine } from "../../shared/error_message";
import { Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { SafeText } from "../../shared/safe_text";
import { text as all } from "../../strings/interviews";
import { HelpPanel } from "./assessor_help_level_panel";
import { type Interview, isOwnerSide, nameIn, languageName, useStep } from "./interview_api";
import { duration } from "./interview_clock";
import { RatingForm } from "./rating_form";
import type { HiddenRun, RoomLog } from "./room_log";
import { RoomMessages, useUnread } from "./room_messages";

const text = all.assessor;
type Tab = "notes" | "messages" | "ratings" | "hidden" | "history";
type Props = { interview: Interview; room: RoomLog; user: Schemas["User"] };

export function AssessSide({ interview, room, user }: Props) {
  const conducts = isOwnerSide(interview);
  const [tab, setTab] = useState<Tab>(conducts ? "notes" : "messages");
  const { unread, read } = useUnread(interview, room, user);
  const tabs: Tab[] = conducts ? ["notes", "messages", "ratings", "hidden", "history"] : ["messages", "history"];
  useEffect(() => {
    if (tab === "messages" && unread.length > 0) read();
  });
  return (
    <section aria-label={text.notes} className="flex h-full min-h-0 flex-col">
      {conducts ? <HelpPanel interview={interview} room={room} /> : <p className="border-b p-3 text-t2">{text.observer}</p>}
      <div role="tablist" aria-label={text.notes} className="flex h-8 shrink-0 overflow-x-auto border-b bg-frame">
        {tabs.map((name) => (
          <button key={name} type="button" role="tab" aria-selected={name === tab} onClick={() => setTab(name)} className={`inset-focus shrink-0 border-b-2 px-2 text-12 ${name === tab ? "border-accent bg-panel text-t1" : "border-transparent text-t2 hover:bg-hover"}`}>
            {text[name]}{name === "messages" && unread.length > 0 && <span className="ml-1 rounded-full bg-accent px-1.5 text-11 text-on-accent">{unread.length}</span>}
          </button>
        ))}
      </div>
      <div className="min-h-0 grow max-[1023px]:min-h-60">
        {tab === "notes" && <Notes interview={interview} room={room} user={user} />}
        {tab === "messages" && <RoomMessages interview={interview} room={room} me={user} />}
        {tab === "ratings" && <RatingForm key={interview.question?.number ?? 0} interview={interview} room={room} me={user} />}
        {tab === "hidden" && <HiddenTests interview={interview} room={room} />}
        {tab === "history" && <History interview={interview} room={room} user={user} />}
      </div>
    </section>
  );
}

function Notes({ interview, room, user }: Props) {
  const step = useStep(interview.id);
  const [typed, setTyped] = useState("");
  const nameOf = nameIn(interview, user, text.unknownAssessor);
  const add = async () => {
    const message = typed.trim();
    if (message && (await step.take("notes", { text: message }))) setTyped("");
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    void add();
  };
  return (
    <div className="flex h-full min-h-0 flex-col">
      {interview.phase !== "closed" && (
        <form onSubmit={(event) => { event.preventDefault(); void add(); }} className="shrink-0 border-b p-2">
          {step.error !== null && <div className="mb-2"><ProblemLine error={step.error} /></div>}
          <textarea value={typed} onChange={(event) => setTyped(event.target.value)} onKeyDown={onKey} rows={2} maxLength={20_000} aria-label={text.note} placeholder={text.noteHint} className="w-full resize-y rounded-row border border-edge bg-panel p-2" />
          <div className="mt-1 flex justify-end"><Button type="submit" small keys="Ctrl ↵" disabled={!typed.trim() || step.busy !== ""}>{text.noteAdd}</Button></div>
        </form>
      )}
      <ol className="min-h-0 grow overflow-auto">
        {room.view.notes.length === 0 && <li className="p-3 text-t2">{text.noNotes}</li>}
        {room.view.notes.toReversed().map((each) => (
          <li key={each.seq} className="border-b">
            <MomentLink workspace={each.workspace} seq={each.workspaceSeq}>
              <span className="text-12 text-t3">{duration(each.elapsedMs)} · <SafeText text={nameOf(each.by)} /></span>
              <span className="block break-words whitespace-pre-wrap"><SafeText text={each.text} /></span>
            </MomentLink>
          </li>
        ))}
      </ol>
    </div>
  );
}

/** A row that opens the playback at its moment; plain text if there is none. */
function MomentLink({ workspace, seq, children }: { workspace: string; seq: number; children: ReactNode }) {
  if (!workspace || !seq) return <div className="px-3 py-1.5">{children}</div>;
  return <Link href={`/s/${workspace}/play?at=${seq}`} className="fade inset-focus block px-3 py-1.5 hover:bg-hover">{children}</Link>;
}

function HiddenTests({ interview, room }: { interview: Interview; room: RoomLog }) {
  const step = useStep(interview.id);
  const mayRun = interview.question !== null && interview.phase !== "closed";
  return (
    <div className="h-full overflow-auto p-3">
      {mayRun && <Button icon="test" disabled={step.busy !== ""} onClick={() => void step.take("hidden-tests")}>{step.busy ? text.hiddenRunning : text.hiddenRun}</Button>}
      {step.error !== null && <div className="mt-2"><ProblemLine error={step.error} /></div>}
      {room.view.hidden.length === 0 && <p className="mt-2 text-t2">{text.hiddenNone}</p>}
      <ol className="mt-2 space-y-2">{room.view.hidden.toReversed().map((run) => <HiddenResult key={run.seq} run={run} />)}</ol>
    </div>
  );
}

export function HiddenResult({ run }: { run: HiddenRun }) {
  const isGood = run.total > 0 && run.passed === run.total;
  return (
    <li className="rounded-card border">
      <MomentLink workspace={run.workspace} seq={run.workspaceSeq}>
        <span className={isGood ? "text-ok" : "text-bad"}>{isGood ? "✓" : "✗"} {text.hiddenResult(run.passed, run.total)}</span>
        <span className="text-12 text-t3"> · {run.number} · <SafeText text={run.question} /> · {languageName(run.language)} · {timeOfDay(run.atMs)}</span>
      </MomentLink>
      {run.reason && <p className="px-3 pb-2 text-bad"><SafeText text={run.reason} /></p>}
      {run.cases.length > 0 && (
        <ul className="border-t px-3 py-1">
          {run.cases.map((each, index) => <li key={index} className="flex items-baseline gap-2 py-0.5 text-12"><Icon name={each.ok ? "check" : "cross"} size={10} className={each.ok ? "text-ok" : "text-bad"} /><span className="min-w-0"><SafeText text={each.name} />{each.detail && !each.ok && <span className="block truncate text-t3" title={each.detail}><SafeText text={each.detail} /></span>}</span></li>)}
        </ul>
      )}
    </li>
  );
}

function History({ interview, room, user }: Props) {
  const nameOf = nameIn(interview, user, text.unknownAssessor);
  return (
    <ol tabIndex={0} aria-label={text.history} className="inset-focus h-full overflow-auto p-3">
      {room.view.history.toReversed().map((each) => (
        <li key={each.seq} className="flex gap-2 py-0.5">
          <span className="w-10 shrink-0 text-12 text-t3">{timeOfDay(each.atMs)}</span>
          <span className="min-w-0 break-words">{all.event[each.type] ?? each.type}{each.detail && <span className="text-t2"> · <SafeText text={each.detail} /></span>}{each.by && <span className="text-12 text-t3"> · <SafeText text={nameOf(each.by)} /></span>}</span>
        </li>
      ))}
    </ol>
  );
}


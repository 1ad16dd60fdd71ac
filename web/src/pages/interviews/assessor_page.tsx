// The assessor's view of one interview: the candidate's workspace live, and beside it help, notes, messages and rating.
import { useEffect, useState } from "react";
import { Link, useSearchParams } from "wouter";
import { Problem, type Schemas } from "../../api/http_client";
import { clock as timeOfDay } from "../../display_format";
import { ProblemLine } from "../../shared/error_message";
import { Button, Field } from "../../shared/form_controls";
import { usePageCommands } from "../../shared/page_commands";
import { Splitter, useSize } from "../../shared/panel_splitter";
import { SafeText } from "../../shared/safe_text";
import { useSeconds } from "../../shared/current_time";
import { setPageTitle } from "../../shared/page_title";
import { text as all } from "../../strings/interviews";
import { NotFound } from "../not_found";
import { useIsWide } from "../session/window_width_classes";
import { AssessSide } from "./assessor_side_panel";
import { ConfirmDialog } from "./confirm_dialog";
import { type Interview, isOwnerSide, languageName, useInterview, useStep } from "./interview_api";
import { InterviewClock, duration } from "./interview_clock";
import { PhaseMark, needsOf } from "./interview_list";
import { InvitationDialog } from "./invitation_dialog";
import { LiveWorkspace } from "./live_workspace";
import { type RoomLog, useRoom } from "./room_log";

const text = all.assessor;
const MIN_PX = 300;

export function AssessPage({ id, user }: { id: string; user: Schemas["User"] }) {
  const interview = useInterview(id);
  const room = useRoom(id);
  const [params, setParams] = useSearchParams();
  const [width, setWidth] = useSize("assess", 360);
  const isWide = useIsWide();
  const { data } = interview;
  const title = data?.title ?? "";
  const needs = data ? needsOf(data) : "";
  useEffect(() => {
    setPageTitle(`${needs ? "(1) " : ""}${text.title(title)}`);
  }, [title, needs]);
  if (interview.error instanceof Problem && (interview.error.status === 404 || interview.error.status === 403)) return <NotFound />;
  if (!data) return interview.isError ? <div className="p-4"><ProblemLine error={interview.error} retry={() => void interview.refetch()} /></div> : null;
  if (data.role === "candidate") return <NotFound />;
  const chosen = data.workspaces.find((each) => each.session === params.get("ws")) ?? data.workspaces.find((each) => each.current);
  const session = chosen?.session ?? data.question?.workspace ?? "";
  const invited = params.get("invite");
  const closeInvite = () => setParams((before) => { const after = new URLSearchParams(before); after.delete("invite"); return after; }, { replace: true });
  const invite = () => setParams((before) => { const after = new URLSearchParams(before); after.set("invite", "candidate"); return after; }, { replace: true });
  const side = <AssessSide interview={data} room={room} user={user} />;
  const live = session ? <LiveWorkspace key={session} interview={data} session={session} user={user} /> : <NotYet interview={data} room={room} invite={invite} />;
  return (
    <div className="flex h-full flex-col">
      <AssessHeader interview={data} receivedMs={interview.dataUpdatedAt} invite={invite} />
      <main className="flex min-h-0 grow max-[1023px]:flex-col max-[1023px]:overflow-auto">
        <div className="h-full min-w-0 grow bg-panel max-[1023px]:h-[70vh] max-[1023px]:shrink-0">{live}</div>
        {isWide && <Splitter label={text.resizeSide} size={width} min={MIN_PX} max={Math.max(MIN_PX, window.innerWidth - 640)} onSize={setWidth} from="end" />}
        <div className="h-full shrink-0 bg-panel max-[1023px]:h-auto max-[1023px]:border-t" style={isWide ? { width } : {}}>{side}</div>
      </main>
      {invited && isOwnerSide(data) && <InvitationDialog id={id} role={invited} onClose={closeInvite} />}
    </div>
  );
}

/** The next step before the interview begins, and the failed parts of the lobby's system check. */
function NotYet({ interview, room, invite }: { interview: Interview; room: RoomLog; invite: () => void }) {
  const isReady = interview.candidate !== "";
  const checked = room.view.history.findLast((each) => each.type === "lobby.checked")?.detail ?? "";
  const missing = checked.replace(/^[✓✗]\s*/, "");
  return (
    <div className="grid h-full place-content-center justify-items-center gap-3 p-6 text-center text-t2">
      <p>{isReady ? text.ready : text.notYet}</p>
      {missing && <p className="max-w-xl rounded-card bg-warn-tint px-4 py-3 text-warn"><span className="font-semibold">{text.missing}</span> <SafeText text={missing} /></p>}
      {interview.role === "owner" && !isReady && interview.phase === "planned" && <Button icon="person" onClick={invite}>{text.inviteCandidate}</Button>}
    </div>
  );
}

type Asks = "" | "pause" | "extend" | "end" | "close";

function AssessHeader({ interview, receivedMs, invite }: { interview: Interview; receivedMs: number; invite: () => void }) {
  const step = useStep(interview.id);
  const [asks, setAsks] = useState<Asks>("");
  const [reason, setReason] = useState("");
  const [minutes, setMinutes] = useState("10");
  const [of, setOf] = useState("interview");
  const { phase, question } = interview;
  const conducts = isOwnerSide(interview);
  const isOpen = phase === "running" || phase === "paused";
  const open = (what: Asks) => { step.clear(); setReason(""); setAsks(what); };
  const close = () => setAsks("");
  const isReady = interview.candidate !== "";
  usePageCommands(!conducts ? [] : [
    ...(phase === "planned" && isReady ? [{ label: text.begin, icon: "play" as const, run: () => void step.take("begin") }] : []),
    ...(phase === "running" ? [{ label: text.pause, icon: "pause" as const, run: () => open("pause") }] : []),
    ...(phase === "paused" ? [{ label: text.resume, icon: "play" as const, run: () => void step.take("resume") }] : []),
    ...(isOpen ? [{ label: text.extend, icon: "plus" as const, run: () => open("extend") }, { label: text.end, icon: "stop" as const, run: () => open("end") }] : []),
    ...(phase === "ended" ? [{ label: text.seal, icon: "key" as const, run: () => open("close") }] : []),
    ...(interview.role === "owner" ? [{ label: all.invite.menu, icon: "person" as const, run: invite }] : []),
  ]);
  const reasonField = (label: string) => <label className="mt-3 block text-12 text-t2">{label}<Field autoFocus value={reason} maxLength={1000} onChange={(event) => setReason(event.target.value)} className="mt-1 w-full" /></label>;
  return (
    <header className="shrink-0 border-b bg-panel px-3 py-1.5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <Link href="/interviews" className="fade flex h-6 items-center rounded-row px-1.5 text-t2 hover:bg-hover">‹ {text.back}</Link>
        <h1 className="min-w-0 truncate text-14 font-semibold"><SafeText text={interview.title} /></h1>
        <PhaseMark interview={interview} />
        <Candidate interview={interview} />
        {question && <span className="min-w-0 truncate text-12 text-t2">{all.questionOf(question.number, interview.question_count)} · <SafeText text={question.title} /> · {languageName(question.language)}</span>}
        <span className="grow" />
        {interview.clock.credited_ms > 999 && <span className="text-12 whitespace-nowrap text-t2" title={text.creditedAbout}>{text.credited(duration(interview.clock.credited_ms))}</span>}
        {isOpen && <InterviewClock clock={interview.clock} receivedMs={receivedMs} large />}
        {conducts && (
          <span className="flex flex-wrap gap-2">
            {phase === "planned" && <Button kind="primary" icon="play" disabled={!isReady || step.busy !== ""} title={isReady ? "" : text.beginAbout} onClick={() => void step.take("begin")}>{text.begin}</Button>}
            {phase === "running" && <Button icon="pause" onClick={() => open("pause")}>{text.pause}</Button>}
            {phase === "paused" && <Button kind="primary" icon="play" disabled={step.busy !== ""} onClick={() => void step.take("resume")}>{text.resume}</Button>}
            {isOpen && <Button onClick={() => open("extend")}>{text.extend}</Button>}
            {isOpen && <Button kind="danger" onClick={() => open("end")}>{text.end}</Button>}
            {phase === "ended" && <Button onClick={() => open("close")}>{text.seal}</Button>}
            {interview.role === "owner" && !["ended", "closed"].includes(phase) && <Button kind="quiet" icon="person" onClick={invite}>{all.invite.menu}</Button>}
            <Link href={`/i/${interview.id}/report`} className="fade inline-flex h-7 items-center rounded-row px-2.5 text-t2 hover:bg-hover hover:text-t1 pointer-coarse:h-11">{all.report}</Link>
          </span>
        )}
      </div>
      {step.error !== null && !asks && <div className="mt-1"><ProblemLine error={step.error} /></div>}
      {asks === "pause" && <ConfirmDialog title={text.pauseTitle} about={text.pauseAbout} label={text.pause} error={step.error} act={() => step.take("pause", { reason })} onClose={close}>{reasonField(text.reason)}</ConfirmDialog>}
      {asks === "end" && <ConfirmDialog title={text.endTitle} about={text.endAbout} label={all.room.endNow} isDanger error={step.error} act={() => step.take("end", { reason })} onClose={close}>{reasonField(text.reasonPrivate)}</ConfirmDialog>}
      {asks === "close" && <ConfirmDialog title={text.sealTitle} about={text.sealAbout} label={text.seal.replace("…", "")} isDanger error={step.error} act={() => step.take("close")} onClose={close} />}
      {asks === "extend" && (
        <ConfirmDialog title={text.extendTitle} about="" label={text.extendTitle} error={step.error} act={() => step.take("extend", { minutes: Number(minutes), of, reason })} onClose={close}>
          <div className="flex flex-wrap gap-3">
            <label className="text-12 text-t2">{text.extendMinutes}<Field autoFocus required type="number" min={1} max={240} value={minutes} onChange={(event) => setMinutes(event.target.value)} className="mt-1 block w-24" /></label>
            <label className="text-12 text-t2">{text.extendOf}
              <select value={of} onChange={(event) => setOf(event.target.value)} className="mt-1 block h-7 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1">
                <option value="interview">{text.extendWhole}</option>
                {question?.minutes !== null && <option value="question">{text.extendQuestion}</option>}
              </select>
            </label>
          </div>
        </ConfirmDialog>
      )}
    </header>
  );
}

/** The candidate, and whether they are connected. */
function Candidate({ interview }: { interview: Interview }) {
  const since = interview.clock.offline_since_ms;
  const now = useSeconds(since !== null);
  if (!interview.candidate) return <span className="text-12 text-t3">{text.notCome}</span>;
  return (
    <span className="text-12 whitespace-nowrap text-t2">
      <SafeText text={interview.candidate_name} />
      {interview.phase === "running" && <span className={since === null ? "text-ok" : "text-warn"} title={since === null ? "" : timeOfDay(since)}> · {since === null ? text.online : text.offlineFor(duration(now - since))}</span>}
    </span>
  );
}

// The candidate's room: the question at the left, the work beside it, and the assistant. The clock is in the status bar.
import { type ReactNode, useEffect, useState } from "react";
import { useSearchParams } from "wouter";
import type { Schemas } from "../../api/http_client";
import { clock as timeOfDay } from "../../display_format";
import { Boundary } from "../../shared/error_boundary";
import { ProblemLine } from "../../shared/error_message";
import { Badge, Button } from "../../shared/form_controls";
import { Markdown } from "../../shared/markdown";
import { usePageCommands } from "../../shared/page_commands";
import { Splitter, useSize } from "../../shared/panel_splitter";
import { SafeText } from "../../shared/safe_text";
import { text as all } from "../../strings/interviews";
import { Announcer } from "../session/screen_reader_announcer";
import { ConnectionStrip } from "../session/connection_strip";
import { Menu, MenuItem } from "../session/conversation_rows";
import { Context, type Panel } from "../session/session_context";
import { useSessionParts } from "../session/session_streams_and_context";
import { useIsRoomy, useIsWide } from "../session/window_width_classes";
import { WorkArea } from "../session/work_area";
import type { Presence } from "./candidate_heartbeat_and_reports";
import { ConfirmDialog } from "./confirm_dialog";
import { type Interview, type OpenQuestion, languageName, useNameOf, useStep } from "./interview_api";
import { InterviewClock, duration } from "./interview_clock";
import { RoomConversation } from "./room_conversation";
import { MessageStrip, RoomMessages, useUnread } from "./room_messages";
import type { RoomLog } from "./room_log";
import { useStartingFile, useWorkspaceInAddress } from "./first_opened_file";

const text = all.room;
const PANELS: readonly Panel[] = ["tests", "terminal", "debugger", "changes"];
const MIN_PX = 300;
type Props = { interview: Interview; question: OpenQuestion; receivedMs: number; user: Schemas["User"]; room: RoomLog; presence: Presence };

export function CandidateRoom(props: Props) {
  const { interview, question, room, user, presence, receivedMs } = props;
  const [params, setParams] = useSearchParams();
  const isShown = useWorkspaceInAddress(question.workspace);
  const side = params.get("side") ?? "question";
  const setSide = (name: string) => setParams((before) => { const after = new URLSearchParams(before); after.set("side", name); after.set("view", name); return after; }, { replace: true });
  return (
    <div className="flex h-full flex-col">
      <RoomHeader interview={interview} question={question} />
      <MessageStrip interview={interview} room={room} me={user} reply={() => setSide("messages")} />
      <StateStrip interview={interview} room={room} presence={presence} />
      <HelpStrip interview={interview} room={room} openAssistant={() => setSide("assistant")} />
      {isShown && <Work key={question.workspace} {...props} side={side} setSide={setSide} />}
      <StatusBar interview={interview} receivedMs={receivedMs} presence={presence} isLive={room.isLive} />
    </div>
  );
}

function RoomHeader({ interview, question }: { interview: Interview; question: OpenQuestion }) {
  const step = useStep(interview.id);
  const [asks, setAsks] = useState<"" | "next" | "end" | `to:${string}`>("");
  const isLast = question.number >= interview.question_count;
  const isRunning = interview.phase === "running";
  const language = asks.startsWith("to:") ? asks.slice(3) : "";
  const open = (what: typeof asks) => { step.clear(); setAsks(what); };
  usePageCommands([
    { label: isLast ? text.finish : text.next, icon: "chevron", run: () => open("next") },
    ...question.languages.filter((each) => each !== question.language).map((each) => ({ label: `${text.language}: ${languageName(each)}`, icon: "edit" as const, run: () => open(`to:${each}`) })),
    { label: text.end, icon: "stop", run: () => open("end") },
  ]);
  return (
    <header className="flex min-h-10 shrink-0 flex-wrap items-center gap-x-3 gap-y-1 border-b bg-panel px-3 py-1">
      <h1 className="min-w-0 truncate text-14 font-semibold"><SafeText text={question.title} /></h1>
      <Progress number={question.number} count={interview.question_count} />
      <span className="grow" />
      {question.level && <span title={all.levelsAbout[question.level]}><Badge tone="agent">{text.levelIs(all.levels[question.level] ?? question.level)}</Badge><span className="sr-only">{all.levelsAbout[question.level]}</span></span>}
      <label className="flex items-center gap-1.5 text-12 text-t2">{text.language}
        <select value={question.language} disabled={!isRunning || question.languages.length < 2} onChange={(event) => open(`to:${event.target.value}`)} className="h-7 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1 disabled:opacity-60 pointer-coarse:h-11">
          {question.languages.map((each) => <option key={each} value={each}>{languageName(each)}</option>)}
        </select>
      </label>
      <Button kind="primary" disabled={!isRunning} onClick={() => open("next")}>{isLast ? text.finish : text.next}</Button>
      <Menu label={all.room.end}><MenuItem icon="stop" onSelect={() => open("end")}>{text.end}</MenuItem></Menu>
      {asks === "next" && <ConfirmDialog title={text.nextTitle(question.number)} about={isLast ? text.finishAbout : text.nextAbout} label={isLast ? text.finish : text.next} error={step.error} act={() => step.take("next", { after: question.number })} onClose={() => setAsks("")} />}
      {asks === "end" && <ConfirmDialog title={text.endTitle} about={text.endAbout} label={text.endNow} isDanger error={step.error} act={() => step.take("end", {})} onClose={() => setAsks("")} />}
      {language && <ConfirmDialog title={text.languageTitle(languageName(language))} about={text.languageAbout} label={text.switch} error={step.error} act={() => step.take("language", { language })} onClose={() => setAsks("")} />}
    </header>
  );
}

/** The number of the question, and of all questions: in words, and as marks. */
function Progress({ number, count }: { number: number; count: number }) {
  return (
    <span className="inline-flex items-center gap-2 text-12 whitespace-nowrap text-t2">
      {all.questionOf(number, count)}
      <span aria-hidden="true" className="inline-flex gap-1">{Array.from({ length: count }, (_, index) => <span key={index} className={`h-1.5 w-4 rounded-full ${index < number - 1 ? "bg-ok" : index === number - 1 ? "bg-accent" : "bg-line"}`} />)}</span>
    </span>
  );
}

/** The state of pauses and of the connection. */
function StateStrip({ interview, room, presence }: { interview: Interview; room: RoomLog; presence: Presence }) {
  const isPaused = interview.phase === "paused";
  const message = presence.offlineSinceMs ? text.offline(timeOfDay(presence.offlineSinceMs)) : isPaused ? (room.view.pausedReason ? text.pausedReason(room.view.pausedReason) : text.paused) : "";
  return <div role="status" className="shrink-0">{message && <p data-strip className="border-b bg-warn-tint px-3 py-1.5 text-warn"><SafeText text={message} /></p>}</div>;
}

/** The newest event of a kind until it is closed, and a function that closes it. */
function useNews(interview: Interview, room: RoomLog, kind: string, key: string) {
  const stored = `hutch.${key}.${interview.id}`;
  const [seenSeq, setSeenSeq] = useState(() => Number(sessionStorage.getItem(stored) ?? 0));
  const newest = room.view.history.findLast((each) => each.type === kind);
  const close = () => {
    if (!newest) return;
    sessionStorage.setItem(stored, String(newest.seq));
    setSeenSeq(newest.seq);
  };
  return [newest && newest.seq > seenSeq ? newest : undefined, close] as const;
}

/** Help that is offered, a level that is proposed to the candidate, and more time. It never takes the focus. */
function HelpStrip({ interview, room, openAssistant }: { interview: Interview; room: RoomLog; openAssistant: () => void }) {
  const step = useStep(interview.id);
  const { offer, proposal } = interview;
  const [changed, closeChanged] = useNews(interview, room, "level.changed", "level");
  const [extended, closeExtended] = useNews(interview, room, "time.extended", "time");
  const level = interview.question?.level ?? "";
  const isNews = changed !== undefined && changed.workspace === interview.question?.workspace && level !== "";
  return (
    <div role="status" className="shrink-0">
      {step.error !== null && <ProblemLine error={step.error} />}
      {offer && (
        <Card tone="agent" message={<><span className="font-semibold">{text.offered}</span> {text.offers[offer.kind] ?? room.view.reasons.get(offer.number) ?? ""}</>}>
          <Button small onClick={() => void step.take(`offers/${offer.number}`, { accept: true }).then((done) => done && openAssistant())}>{text.take}</Button>
          <Button small kind="quiet" onClick={() => void step.take(`offers/${offer.number}`, { accept: false })}>{text.dismiss}</Button>
        </Card>
      )}
      {proposal && !interview.attended && (
        <Card tone="agent" message={<><span className="font-semibold">{text.proposed(all.levels[proposal.level] ?? proposal.level)}</span> {all.levelsAbout[proposal.level]}</>}>
          <Button small onClick={() => void step.take(`proposals/${proposal.number}`, { accept: true })}>{text.accept}</Button>
          <Button small kind="quiet" onClick={() => void step.take(`proposals/${proposal.number}`, { accept: false })}>{text.decline}</Button>
        </Card>
      )}
      {isNews && <Card tone="info" message={text.levelChanged(all.levels[level] ?? level, all.levelsAbout[level] ?? "")}><Button small kind="quiet" onClick={closeChanged}>{all.close}</Button></Card>}
      {extended && <Card tone="info" message={<SafeText text={text.moreTime(extended.detail)} />}><Button small kind="quiet" onClick={closeExtended}>{all.close}</Button></Card>}
    </div>
  );
}

function Card({ tone, message, children }: { tone: "agent" | "info"; message: ReactNode; children: ReactNode }) {
  return <div className={`flex min-h-8 flex-wrap items-center gap-2 border-b px-3 py-1 ${tone === "agent" ? "bg-agent-tint text-agent" : "bg-info-tint text-info"}`}><p className="min-w-0 grow">{message}</p>{children}</div>;
}

function StatusBar({ interview, receivedMs, presence, isLive }: { interview: Interview; receivedMs: number; presence: Presence; isLive: boolean }) {
  const isConnected = isLive && !presence.isLost;
  const { credited_ms } = interview.clock;
  return (
    <footer className="flex h-8 shrink-0 items-center gap-3 overflow-hidden border-t bg-frame px-3 text-12 text-t2">
      <span className={`inline-flex items-center gap-1.5 ${isConnected ? "text-ok" : "text-warn"}`}><span aria-hidden="true" className={`size-2 rounded-full ${isConnected ? "bg-ok" : "bg-warn"}`} />{isConnected ? text.live : text.notLive}</span>
      <span className="min-w-0 truncate max-sm:hidden"><SafeText text={interview.title} /></span>
      <span className="grow" />
      {credited_ms > 999 && <span className="max-sm:hidden">{text.credited(duration(credited_ms))}</span>}
      <InterviewClock clock={interview.clock} receivedMs={receivedMs} standsSinceMs={presence.offlineSinceMs} />
    </footer>
  );
}

type WorkProps = Props & { side: string; setSide: (side: string) => void };

function Work({ interview, question, user, room, side, setSide }: WorkProps) {
  const [params, setParams] = useSearchParams();
  const nameOf = useNameOf(interview, user);
  const { context, session, access } = useSessionParts(question.workspace, user, { canWrite: interview.phase === "running", panels: PANELS, nameOf, readOnlyReason: text.pausedChat });
  useStartingFile(question.workspace);
  const { phase } = interview;
  const { refetch } = access;
  useEffect(() => void refetch(), [phase, refetch]); // a pause takes the access to the work, and its end gives it back
  const [width, setWidth] = useSize("statement", 400);
  const [assistantWidth, setAssistantWidth] = useSize("room-talk", 400);
  const isWide = useIsWide();
  const isRoomy = useIsRoomy();
  const { unread, read } = useUnread(interview, room, user);
  const hasBoth = isRoomy && interview.ai; // the assistant has a column of its own
  const names = ["question", ...(interview.ai && !hasBoth ? ["assistant"] : []), "messages"];
  const view = params.get("view") ?? "question";
  const chosen = names.includes(side) ? side : "question";
  const narrow = [...names, "work"].includes(view) ? view : "question";
  useEffect(() => {
    if ((isWide ? chosen : narrow) === "messages" && unread.length > 0) read();
  });
  const parts: Record<string, ReactNode> = {
    question: <div tabIndex={0} className="inset-focus h-full overflow-auto p-4" data-statement><h2 className="sr-only">{text.question}</h2><Markdown text={question.statement} /></div>,
    assistant: <Boundary what={text.assistant}><RoomConversation /></Boundary>,
    messages: <RoomMessages interview={interview} room={room} me={user} />,
    work: <WorkArea />,
  };
  const choose = (name: string) => (isWide ? setSide(name) : setParams((before) => { const after = new URLSearchParams(before); after.set("view", name); return after; }, { replace: true }));
  const tabs = (shown: string[], current: string) => (
    <div role="tablist" className="flex h-8 shrink-0 border-b bg-frame pointer-coarse:h-11">
      {shown.map((name) => (
        <button key={name} type="button" role="tab" aria-selected={name === current} onClick={() => choose(name)} className={`inset-focus border-b-2 px-3 text-12 max-[1023px]:grow ${name === current ? "border-accent bg-panel text-t1" : "border-transparent text-t2 hover:bg-hover"}`}>
          {labelOf(name)}{name === "messages" && unread.length > 0 && <span className="ml-1 rounded-full bg-accent px-1.5 text-11 text-on-accent">{unread.length}</span>}
        </button>
      ))}
    </div>
  );
  return (
    <Context value={context}>
      <ConnectionStrip />
      {session.isError && <div className="p-2"><ProblemLine error={session.error} retry={() => void session.refetch()} /></div>}
      <main className="flex min-h-0 grow max-[1023px]:flex-col">
        {isWide ? (
          <>
            <section aria-label={labelOf(chosen)} className="flex h-full shrink-0 flex-col bg-panel" style={{ width }}>{tabs(names, chosen)}<div className="min-h-0 grow">{parts[chosen]}</div></section>
            <Splitter label={text.resize} size={width} min={MIN_PX} max={Math.max(MIN_PX, window.innerWidth - (hasBoth ? assistantWidth : 0) - 560)} onSize={setWidth} />
            <div className="h-full min-w-0 grow"><WorkArea /></div>
            {hasBoth && (
              <>
                <Splitter label={text.resizeAssistant} size={assistantWidth} min={MIN_PX} max={Math.max(MIN_PX, window.innerWidth - width - 560)} onSize={setAssistantWidth} from="end" />
                <section aria-label={text.assistant} className="h-full shrink-0 bg-panel" style={{ width: assistantWidth }}>{parts["assistant"]}</section>
              </>
            )}
          </>
        ) : (
          <>{tabs([...names, "work"], narrow)}<section aria-label={labelOf(narrow)} className="min-h-0 grow bg-panel">{parts[narrow]}</section></>
        )}
      </main>
      <Announcer />
    </Context>
  );
}

const LABELS: Record<string, string> = { question: text.question, assistant: text.assistant, messages: text.messages, work: text.work };
const labelOf = (name: string) => LABELS[name] ?? name;

// The report of an interview: facts with links to the moments that show them, for the screen and for paper.
import { useEffect } from "react";
import { Link } from "wouter";
import { Problem, type Schemas } from "../../api/http_client";
import { clock as timeOfDay } from "../../number_and_time_format";
import { ProblemLine } from "../../shared/error_message";
import { Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { text as all } from "../../strings/interviews";
import { NotFound } from "../not_found";
import { HiddenResult } from "./assess_side";
import { type Interview, isOwnerSide, nameIn, useInterview } from "./interview_api";
import { duration } from "./interview_clock";
import { PhaseMark } from "./interview_list";
import { Moment, Part, QuestionFacts } from "./report_questions";
import { type RoomLog, useRoom } from "./room_log";

const text = all.reportPage;

export function ReportPage({ id, user }: { id: string; user: Schemas["User"] }) {
  const interview = useInterview(id);
  const room = useRoom(id);
  const { data } = interview;
  const title = data?.title ?? "";
  useEffect(() => {
    document.title = `${text.title(title)} · ${strings.hutch}`;
  }, [title]);
  if (interview.error instanceof Problem && (interview.error.status === 404 || interview.error.status === 403)) return <NotFound />;
  if (!data) return interview.isError ? <div className="p-4"><ProblemLine error={interview.error} retry={() => void interview.refetch()} /></div> : null;
  if (!isOwnerSide(data)) return <NotFound />;
  const nameOf = nameIn(data, user, all.assessor.unknownAssessor);
  return (
    <main className="print-page h-full overflow-auto bg-panel">
      <div className="mx-auto max-w-3xl space-y-6 p-6 max-sm:p-3">
        <header>
          <p className="print-hide"><Link href={`/i/${id}/assess`} className="text-t2 hover:underline">‹ {text.facts}</Link></p>
          <div className="mt-1 flex flex-wrap items-center gap-3">
            <h1 className="text-20 font-semibold"><SafeText text={data.title} /></h1>
            <PhaseMark interview={data} />
            <span className="grow" />
            <Button className="print-hide" icon="file" onClick={() => window.print()}>{text.print}</Button>
            <a href={`/api/v1/interviews/${id}/record`} className="print-hide fade inline-flex h-7 items-center gap-1.5 rounded-row border border-edge bg-panel px-2.5 hover:bg-hover pointer-coarse:h-11"><Icon name="download" size={14} />{text.record}</a>
            {data.sealed && <a href={`/api/v1/sessions/${id}/receipt`} download={`receipt-${id}.json`} className="print-hide fade inline-flex h-7 items-center gap-1.5 rounded-row border border-edge bg-panel px-2.5 hover:bg-hover pointer-coarse:h-11"><Icon name="key" size={14} />{all.over.receipt}</a>}
          </div>
          <p className="mt-1 text-t2">{text.about}</p>
        </header>
        <Facts interview={data} />
        <Ratings room={room} nameOf={nameOf} />
        <QuestionFacts id={id} nameOf={nameOf} />
        <Part title={text.hidden}>{room.view.hidden.length === 0 ? <p className="text-t2">{all.assessor.hiddenNone}</p> : <ol className="space-y-2">{room.view.hidden.map((run) => <HiddenResult key={run.seq} run={run} />)}</ol>}</Part>
        <Part title={text.notes}>
          {room.view.notes.length === 0 ? <p className="text-t2">{text.noNotes}</p> : (
            <ol className="space-y-2">{room.view.notes.map((each) => <li key={each.seq}><span className="text-12 text-t3">{duration(each.elapsedMs)} · <SafeText text={nameOf(each.by)} /> <Moment workspace={each.workspace} seq={each.workspaceSeq} /></span><p className="break-words whitespace-pre-wrap"><SafeText text={each.text} /></p></li>)}</ol>
          )}
        </Part>
        <Leaving room={room} />
        <Part title={text.timeline}>
          <ol>{room.view.history.map((each) => <li key={each.seq} className="flex gap-3 py-0.5"><span className="w-12 shrink-0 text-12 text-t3">{timeOfDay(each.atMs)}</span><span className="min-w-0 break-words">{all.event[each.type] ?? each.type}{each.detail && <span className="text-t2"> · <SafeText text={each.detail} /></span>}{each.by && <span className="text-12 text-t3"> · <SafeText text={nameOf(each.by)} /></span>}</span></li>)}</ol>
        </Part>
      </div>
    </main>
  );
}


function Facts({ interview }: { interview: Interview }) {
  const day = (ms: number) => (ms ? new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }) : "—");
  const rows: [string, string][] = [
    [all.candidate, interview.candidate_name || all.noCandidate],
    [text.begun, day(interview.begun_ms)],
    [text.ended, day(interview.ended_ms)],
    [text.used, duration(interview.clock.elapsed_ms)],
    [text.credited, duration(interview.clock.credited_ms)],
    ...(interview.plan?.extra_time_percent ? [[text.extra, `${interview.plan.extra_time_percent} %`] as [string, string]] : []),
    [all.level, interview.ai ? all.levels[interview.question?.level ?? ""] ?? "—" : all.withoutAi],
  ];
  return (
    <Part title={text.facts}>
      <dl className="grid grid-cols-[auto_1fr] gap-x-6 gap-y-1">{rows.map(([name, value]) => <div key={name} className="contents"><dt className="text-t2">{name}</dt><dd><SafeText text={value} /></dd></div>)}</dl>
      <ul className="mt-3 flex flex-wrap gap-2">{interview.workspaces.map((each) => <li key={each.session}><Link href={`/s/${each.session}/play`} className="text-link underline">{all.assessor.workspaceOf(each.number, each.question, each.language)}</Link></li>)}</ul>
    </Part>
  );
}

function Ratings({ room, nameOf }: { room: RoomLog; nameOf: (by: string) => string }) {
  const ratings = [...room.view.ratings.values()].toSorted((a, b) => a.number - b.number || a.criterion.localeCompare(b.criterion));
  return (
    <Part title={text.ratings}>
      {ratings.length === 0 ? <p className="text-t2">{text.noRatings}</p> : (
        <table className="w-full text-left">
          <thead><tr className="text-12 text-t2"><th className="py-1 pr-3 font-normal">{all.question}</th><th className="py-1 pr-3 font-normal">{text.criterion}</th><th className="py-1 pr-3 font-normal">{text.points}</th><th className="py-1 pr-3 font-normal">{text.by}</th><th className="py-1 font-normal">{text.comment}</th></tr></thead>
          <tbody>{ratings.map((each) => <tr key={`${each.number}/${each.criterion}/${each.by}`} className="border-t"><td className="py-1 pr-3">{each.number}</td><td className="py-1 pr-3"><SafeText text={each.criterion} /></td><td className="py-1 pr-3 whitespace-nowrap">{all.assessor.points(each.points)}</td><td className="py-1 pr-3"><SafeText text={nameOf(each.by)} /></td><td className="py-1"><SafeText text={each.comment} /></td></tr>)}</tbody>
        </table>
      )}
    </Part>
  );
}

/** What the candidate's browser reported, with its time: shown, never judged. */
function Leaving({ room }: { room: RoomLog }) {
  const shown = room.view.clients.filter((each) => each.type === "paste" || each.type === "blur" || each.type === "focus");
  return (
    <Part title={text.leaving}>
      <p className="text-t2">{text.leavingAbout}</p>
      {shown.length === 0 ? <p className="mt-2 text-t2">{text.noLeaving}</p> : <ol className="mt-2">{shown.map((each, index) => <li key={index} className="flex gap-3 py-0.5"><span className="w-12 shrink-0 text-12 text-t3">{timeOfDay(each.atMs)}</span><span>{each.type === "paste" ? text.pasted(each.chars) : all.event[each.type] ?? each.type}{each.where && <span className="text-t2"> · <SafeText text={each.where} /></span>}</span></li>)}</ol>}
    </Part>
  );
}

// The page of the candidate: the lobby, then the room, then the end. A reload finds the same place again.
import { useEffect } from "react";
import { useQueryClient } from "@tanstack/react-query";
import { Redirect } from "wouter";
import { Problem, type Schemas, post } from "../../api/http_client";
import { deleteViews } from "../../api/stored_folds";
import { ProblemLine } from "../../shared/error_message";
import { Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { SafeText } from "../../shared/safe_text";
import { setPageTitle } from "../../shared/page_title";
import { text } from "../../strings/interviews";
import { NotFound } from "../not_found";
import { useClientReports, useHeartbeat } from "./candidate_heartbeat_and_reports";
import { CandidateRoom } from "./candidate_room";
import { type Interview, useInterview } from "./interview_api";
import { duration } from "./interview_clock";
import { Lobby } from "./lobby_checks_and_consent";
import { type RoomLog, useRoom } from "./room_log";

export function CandidatePage({ id, user }: { id: string; user: Schemas["User"] }) {
  const interview = useInterview(id);
  const { data } = interview;
  const title = data?.title ?? "";
  const phase = data?.phase ?? "planned";
  useEffect(() => {
    setPageTitle(`${text.phases[phase] ?? ""} · ${title}`);
  }, [phase, title]);
  if (interview.error instanceof Problem && (interview.error.status === 404 || interview.error.status === 403)) return <NotFound />;
  if (!data) return interview.isError ? <div className="p-4"><ProblemLine error={interview.error} retry={() => void interview.refetch()} /></div> : null;
  if (data.role !== "candidate") return <Redirect to={`/i/${id}/assess`} replace />;
  return <Present interview={data} receivedMs={interview.dataUpdatedAt} user={user} />;
}

function Present({ interview, receivedMs, user }: { interview: Interview; receivedMs: number; user: Schemas["User"] }) {
  const { id, phase } = interview;
  const room = useRoom(id);
  const isOpen = phase === "running" || phase === "paused";
  const presence = useHeartbeat(id, isOpen);
  useClientReports(id, isOpen);
  if (phase === "planned") return <Lobby interview={interview} user={user} room={room} />;
  if (isOpen && interview.question) return <CandidateRoom interview={interview} question={interview.question} receivedMs={receivedMs} user={user} room={room} presence={presence} />;
  return <Over interview={interview} room={room} />;
}

/** The page after the interview: the used time, the results that the plan shows, and a copy of the record. */
function Over({ interview, room }: { interview: Interview; room: RoomLog }) {
  const queries = useQueryClient();
  const logOut = () => void post("/logout", { everywhere: false }).then(() => { localStorage.clear(); sessionStorage.clear(); deleteViews(); return queries.invalidateQueries(); });
  return (
    <main className="h-full overflow-auto p-6 max-sm:p-3">
      <div className="mx-auto mt-[8vh] max-w-2xl rounded-dialog border bg-panel p-6">
        <h1 className="text-20 font-semibold">{text.over.title}</h1>
        <p className="mt-2 text-14 text-t2">{text.over.about}</p>
        <dl className="mt-4 grid grid-cols-[auto_1fr] gap-x-4 gap-y-1">
          <dt className="text-t2">{text.one}</dt><dd><SafeText text={interview.title} /></dd>
          <dt className="text-t2">{text.over.time}</dt><dd>{duration(interview.clock.elapsed_ms)}</dd>
          <dt className="text-t2">{text.question}</dt><dd>{text.over.done(interview.question?.number ?? interview.workspaces.length, interview.question_count)}</dd>
        </dl>
        {[...room.view.counted].map(([number, each]) => <p key={number} className="mt-2">{text.over.counted(number, each.passed, each.total)}</p>)}
        <div className="mt-6 flex flex-wrap items-center gap-3">
          <a href={`/api/v1/interviews/${interview.id}/record`} className="fade inline-flex h-7 items-center gap-1.5 rounded-row border border-edge bg-panel px-2.5 hover:bg-hover pointer-coarse:h-11"><Icon name="download" size={14} />{text.over.record}</a>
          {interview.sealed && <a href={`/api/v1/sessions/${interview.id}/receipt`} download={`receipt-${interview.id}.json`} className="fade inline-flex h-7 items-center gap-1.5 rounded-row border border-edge bg-panel px-2.5 hover:bg-hover pointer-coarse:h-11"><Icon name="key" size={14} />{text.over.receipt}</a>}
          <Button kind="quiet" onClick={logOut}>{text.over.logout}</Button>
        </div>
        <p className="meta mt-2">{text.over.recordAbout} {interview.sealed && text.over.receiptAbout}</p>
      </div>
    </main>
  );
}

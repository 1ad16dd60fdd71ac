// The candidate's workspace as it is now. It is read-only until the assessor intervenes; the candidate is notified of that.
import { useEffect, useState } from "react";
import { Link, useSearchParams } from "wouter";
import { type Schemas, post } from "../../api/http_client";
import { Boundary } from "../../shared/error_boundary";
import { ProblemLine } from "../../shared/error_message";
import { Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { Markdown } from "../../shared/markdown";
import { SafeText } from "../../shared/safe_text";
import { text as all } from "../../strings/interviews";
import { ConnectionStrip } from "../session/connection_strip";
import { Context, type Panel, useView } from "../session/session_context";
import { useSessionParts } from "../session/session_streams_and_context";
import { WorkArea } from "../session/work_area";
import { ConfirmDialog } from "./confirm_dialog";
import { type Interview, isOwnerSide, languageName, useNameOf } from "./interview_api";
import { RoomConversation } from "./room_conversation";
import { useStartingFile, useWorkspaceInAddress } from "./first_opened_file";

const text = all.assessor;
const PANELS: readonly Panel[] = ["tests", "terminal", "debugger", "changes", "preview", "log"];
type Props = { interview: Interview; session: string; user: Schemas["User"] };
type Tab = "work" | "conversation" | "question";

export function LiveWorkspace(props: Props) {
  return useWorkspaceInAddress(props.session) ? <Shown {...props} /> : null;
}

function Shown({ interview, session: id, user }: Props) {
  const [hasBegun, setIntervening] = useState(false);
  const [asks, setAsks] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [tab, setTab] = useState<Tab>("work");
  const [params, setParams] = useSearchParams();
  const isOpen = interview.phase === "running" || interview.phase === "paused";
  const isCurrent = isOpen && id === interview.question?.workspace;
  const isIntervening = hasBegun && isCurrent;
  const nameOf = useNameOf(interview, user);
  const { context, session, access } = useSessionParts(id, user, { canWrite: isIntervening, panels: PANELS, nameOf });
  useStartingFile(id);
  const mayIntervene = isOwnerSide(interview) && isCurrent && (access.data?.actions.includes("edit") ?? false);
  const { refetch } = access;
  useEffect(() => void refetch(), [isCurrent, refetch]); // the current workspace can be edited, others cannot
  const announce = async (message: string) => {
    try {
      await post(`/interviews/${interview.id}/messages`, { text: message });
      setError(null);
      return true;
    } catch (failed) {
      setError(failed);
      return false;
    }
  };
  const tabs: [Tab, string][] = [["work", text.work], ...(interview.ai ? [["conversation", text.conversation] as [Tab, string]] : []), ["question", text.question]];
  return (
    <Context value={context}>
      <div className="flex h-full flex-col">
        <ConnectionStrip />
        <div className="flex min-h-8 shrink-0 flex-wrap items-center gap-1 border-b bg-frame px-1">
          <div role="tablist" aria-label={text.live} className="flex h-8">
            {tabs.map(([name, label]) => <button key={name} type="button" role="tab" aria-selected={name === tab} onClick={() => setTab(name)} className={`inset-focus border-b-2 px-3 text-12 ${name === tab ? "border-accent bg-panel text-t1" : "border-transparent text-t2 hover:bg-hover"}`}>{label}</button>)}
          </div>
          {interview.workspaces.length > 1 && (
            <select aria-label={text.workspace} value={id} onChange={(event) => setParams({ ws: event.target.value })} className="h-6 rounded-row border border-edge bg-panel px-1 text-12 text-t1">
              {interview.workspaces.map((each) => <option key={each.session} value={each.session}>{text.workspaceOf(each.number, each.question, languageName(each.language))}{each.current && isOpen ? ` · ${text.now}` : ""}</option>)}
            </select>
          )}
          <span className="grow" />
          {isOpen && <Follow file={params.get("file") ?? ""} />}
          <Link href={`/s/${id}/play`} className="fade inline-flex h-6 items-center gap-1 rounded-row px-2 text-12 text-t2 hover:bg-hover"><Icon name="play" size={12} />{text.play}</Link>
          {mayIntervene && !isIntervening && <Button small icon="edit" onClick={() => setAsks(true)}>{text.intervene}</Button>}
          {isIntervening && <Button small kind="primary" onClick={() => { setIntervening(false); void announce(text.interveneEndMessage); }}>{text.interveneEnd}</Button>}
        </div>
        {isIntervening && <p role="status" className="shrink-0 border-b bg-warn-tint px-3 py-1 text-warn">{text.intervening}</p>}
        {session.isError && <div className="p-2"><ProblemLine error={session.error} retry={() => void session.refetch()} /></div>}
        <div className="min-h-0 grow">
          {tab === "work" && <WorkArea />}
          {tab === "conversation" && <Boundary what={text.conversation}><RoomConversation /></Boundary>}
          {tab === "question" && <div tabIndex={0} className="inset-focus h-full overflow-auto p-4"><h2 className="mb-2 text-16 font-semibold"><SafeText text={interview.question?.title ?? ""} /></h2><Markdown text={interview.question?.statement ?? ""} /></div>}
        </div>
        {asks && <ConfirmDialog title={text.interveneTitle} about={text.interveneAbout} label={text.interveneStart} error={error} act={async () => { const isAnnounced = await announce(text.interveneMessage); if (isAnnounced) setIntervening(true); return isAnnounced; }} onClose={() => setAsks(false)} />}
      </div>
    </Context>
  );
}

/** Show each file that the candidate changes. Another file that the assessor opens ends it. */
function Follow({ file }: { file: string }) {
  const view = useView();
  const [, setParams] = useSearchParams();
  const [isOn, setOn] = useState(true);
  const path = view.lastChange?.path ?? "";
  const seq = view.lastChange?.seq ?? 0;
  const shown = file.replace(/:\d+$/, "");
  const [before, setBefore] = useState(shown);
  if (before !== shown) {
    setBefore(shown);
    if (isOn && path && before === path) setOn(false);
  }
  useEffect(() => {
    if (!isOn || !path) return;
    setParams((address) => { const after = new URLSearchParams(address); after.set("file", path); return after; }, { replace: true });
  }, [isOn, path, seq, setParams]);
  return <button type="button" aria-pressed={isOn} onClick={() => setOn(!isOn)} className={`fade inline-flex h-6 items-center gap-1 rounded-row px-2 text-12 ${isOn ? "bg-selected text-t1" : "text-t2 hover:bg-hover"}`}><Icon name={isOn ? "check" : "person"} size={12} />{text.follow}</button>;
}

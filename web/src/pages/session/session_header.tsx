// Title, state, actions and cost of the session.
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { type Input, post } from "../../api/http_client";
import { useChangesOf } from "../../api/queries";
import { dollars, tokens } from "../../display_format";
import { Button } from "../../shared/form_controls";
import { useSeconds } from "../../shared/current_time";
import { Icon } from "../../shared/icons";
import { usePageCommands } from "../../shared/page_commands";
import { SafeText, showHidden } from "../../shared/safe_text";
import { StateMark } from "../../shared/session_state_mark";
import { strings } from "../../strings";
import { text as sharing } from "../../strings/sharing";
import { ChangeState } from "../proposed_change_row";
import { EndDialog } from "../end_session_dialog";
import { QUIET_MS } from "./connection_strip";
import { useSessionContext, useView } from "./session_context";
import { Menu, MenuItem, modelName } from "./conversation_rows";
import { OptionsDialog } from "./persona_and_model_dialog";
import { ProposeDialog, useProposeObstacle } from "./propose_change_dialog";
import { ShareDialog } from "./share_dialog";
import { undoableRun } from "./undo_dialog";

const COMPACTED_AT = 0.75; // of the context: there Hutch makes a summary

export function Header({ title, onUndo }: { title: string; onUndo: () => void }) {
  const { id, stream, canWrite, canChange, canManage, showPanel } = useSessionContext();
  const view = useView();
  const [, go] = useLocation();
  const obstacle = useProposeObstacle();
  const [proposing, setProposing] = useState(false);
  const [options, setOptions] = useState(false);
  const [isEnding, setEnding] = useState(false);
  const [isSharing, setSharing] = useState(false);
  const { status, downSinceMs } = stream.connection;
  const isDown = status === "down" || status === "restarting";
  const now = useSeconds(isDown);
  const change = useChangesOf(id, view.changes.length > 0).data?.[0];
  const toChange = change?.state === "open" ? () => go(`/c/${change.id}`) : null;
  const isPast = isDown && now - downSinceMs >= QUIET_MS;
  const isWorking = view.run !== "" || view.state === "queued";
  const give = (type: "cancel" | "pause" | "resume" | "redo") => stream.request({ type } as Input);
  const exportRecord = () => { window.open(`/api/v1/sessions/${id}/record`, "_self"); };
  const runTests = () => {
    showPanel("tests");
    post(`/sessions/${id}/tests`, { wait_s: 0 }).catch((error: unknown) => stream.report(error));
  };
  usePageCommands(!canWrite ? [...(toChange ? [{ label: strings.propose.review, icon: "check" as const, run: toChange }] : []), { label: strings.session.export, icon: "download", run: exportRecord }] : [
    ...(canChange && undoableRun(view) && !isWorking ? [{ label: strings.session.undo, icon: "undo" as const, run: onUndo }] : []),
    ...(canChange && view.redoable && !isWorking ? [{ label: strings.session.redo, icon: "redo" as const, run: () => give("redo") }] : []),
    ...(view.undoable && !obstacle ? [{ label: strings.propose.menu, icon: "diff" as const, run: () => setProposing(true) }] : []),
    ...(toChange ? [{ label: strings.propose.review, icon: "check" as const, run: toChange }] : []),
    ...(isWorking ? [{ label: strings.session.stop, icon: "stop" as const, keys: "Esc Esc", run: () => give("cancel") }] : []),
    ...(isWorking ? [{ label: strings.session.pause, icon: "pause" as const, run: () => give("pause") }] : []),
    ...(view.state === "paused" ? [{ label: strings.session.resume, icon: "play" as const, run: () => give("resume") }] : []),
    ...(view.state !== "ended" ? [{ label: strings.session.options, icon: "gear" as const, run: () => setOptions(true) }, { label: strings.panel.runAllTests, icon: "test" as const, run: () => runTests() }] : []),
    ...(canManage ? [{ label: sharing.menu, icon: "person" as const, run: () => setSharing(true) }] : []),
    ...(canManage && view.state !== "ended" ? [{ label: strings.session.end, icon: "stop" as const, run: () => setEnding(true) }] : []),
    { label: strings.session.export, icon: "download", run: exportRecord },
  ]);
  return (
    <header className="shrink-0 border-b bg-panel px-3 py-1.5">
      <div className="flex items-center gap-2">
        <Link href="/" aria-label={strings.session.back} className="fade -ml-1 grid size-6 place-items-center rounded-row text-t3 hover:bg-hover sm:hidden"><Icon name="chevron" className="rotate-180" /></Link>
        <h1 className="min-w-0 truncate text-14 font-semibold"><SafeText text={title || strings.session.title} /></h1>
        <StateMark state={view.state} isPast={isPast} />
        <LastChange />
        <span className="grow" />
        {canWrite && isWorking && <Button icon="stop" small onClick={() => give("cancel")}>{strings.session.stop}</Button>}
        {canWrite && !isWorking && view.state !== "paused" && view.state !== "ended" && undoableRun(view) && <Button kind="quiet" icon="undo" small title={strings.session.undo} onClick={onUndo}>{strings.session.undoRun}</Button>}
        {canWrite && !isWorking && view.redoable && view.state !== "ended" && !undoableRun(view) && <Button kind="quiet" icon="redo" small onClick={() => give("redo")}>{strings.session.redo}</Button>}
        {canWrite && view.state === "paused" && <Button kind="primary" icon="play" small onClick={() => give("resume")}>{strings.session.resume}</Button>}
        <Menu label={strings.session.more}>
          {canWrite && isWorking && <MenuItem icon="pause" onSelect={() => give("pause")}>{strings.session.pause}</MenuItem>}
          {canChange && undoableRun(view) && <MenuItem icon="undo" onSelect={onUndo}>{strings.session.undo}</MenuItem>}
          {canChange && view.redoable && <MenuItem icon="redo" onSelect={() => give("redo")}>{strings.session.redo}</MenuItem>}
          {canWrite && view.state !== "ended" && <MenuItem icon="gear" onSelect={() => setOptions(true)}>{strings.session.options}</MenuItem>}
          {canWrite && view.undoable && <MenuItem icon="diff" disabled={obstacle !== ""} detail={obstacle} onSelect={() => setProposing(true)}>{strings.propose.menu}</MenuItem>}
          {toChange && <MenuItem icon="check" onSelect={toChange}>{strings.propose.review}</MenuItem>}
          {canManage && <MenuItem icon="person" onSelect={() => setSharing(true)}>{sharing.menu}</MenuItem>}
          <MenuItem icon="play" onSelect={() => go(`/s/${id}/play`)}>{strings.palette.play}</MenuItem>
          <MenuItem icon="chart" onSelect={() => go(`/s/${id}/time`)}>{strings.palette.time}</MenuItem>
          <MenuItem icon="download" onSelect={exportRecord}>{strings.session.export}</MenuItem>
          {canManage && view.state !== "ended" && <MenuItem icon="stop" onSelect={() => setEnding(true)}>{strings.session.end}</MenuItem>}
        </Menu>
      </div>
      <Meter />
      {isEnding && <EndDialog ids={[id]} onClose={() => setEnding(false)} onDone={() => go("/")} />}
      {options && <OptionsDialog onClose={() => setOptions(false)} />}
      {isSharing && <ShareDialog onClose={() => setSharing(false)} />}
      {proposing && <ProposeDialog onClose={() => setProposing(false)} />}
    </header>
  );
}

/** The newest change of the session, if it is merged or closed. */
function LastChange() {
  const { id } = useSessionContext();
  const view = useView();
  const newest = useChangesOf(id, view.changes.length > 0).data?.[0];
  if (!newest || newest.state === "open") return null;
  return <Link href={`/c/${newest.id}`} title={showHidden(newest.title)} className="shrink-0"><ChangeState state={newest.state} /></Link>;
}

export function Meter() {
  const { stream } = useSessionContext();
  const { meter, model, persona } = useView();
  if (!model) return null;
  if (!stream.isWhole) return <p className="meta">{strings.session.readingLog}</p>; // sums of a part would be wrong
  const cost = meter.unpriced > 0 && meter.costUsd === 0 ? strings.meter.unpriced : strings.meter.cost(dollars(meter.costUsd), meter.maxCostUsd !== null ? dollars(meter.maxCostUsd) : "");
  const isNearlyFull = meter.maxContextTokens !== null && meter.contextTokens > COMPACTED_AT * meter.maxContextTokens;
  return (
    <p className="meta truncate">
      <span className={isNearlyFull ? "text-warn" : ""}>{strings.meter.context(tokens(meter.contextTokens), meter.maxContextTokens === null ? "" : tokens(meter.maxContextTokens))}</span> · {cost} · {strings.meter.turns(meter.turns, meter.maxTurns)} · {persona} · {modelName(model)}
    </p>
  );
}

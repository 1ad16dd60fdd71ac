// Title, state, what can be done with the session, and what it has cost.
import { useState } from "react";
import { Link, useLocation } from "wouter";
import type { Input } from "../../api/http_client";
import { useChangesOf } from "../../api/queries";
import { dollars, tokens } from "../../number_and_time_format";
import { Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { usePageCommands } from "../../shared/page_commands";
import { SafeText } from "../../shared/safe_text";
import { StateMark } from "../../shared/state_mark";
import { strings } from "../../strings";
import { text as sharing } from "../../strings/sharing";
import { ChangeState } from "../change_row";
import { EndDialog } from "../end_dialog";
import { useSessionContext, useView } from "./session_context";
import { Menu, MenuItem, modelName } from "./conversation_rows";
import { OptionsDialog } from "./options_dialog";
import { ProposeDialog, useProposeObstacle } from "./propose_dialog";
import { ShareDialog } from "./share_dialog";
import { undoableRun } from "./undo_dialog";

const COMPACTED_AT = 0.75; // of the context: there Hutch makes a summary

export function Header({ title, onUndo }: { title: string; onUndo: () => void }) {
  const { id, stream, canWrite, canManage } = useSessionContext();
  const view = useView();
  const [, go] = useLocation();
  const obstacle = useProposeObstacle();
  const [proposing, setProposing] = useState(false);
  const [options, setOptions] = useState(false);
  const [isEnding, setEnding] = useState(false);
  const [isSharing, setSharing] = useState(false);
  const isWorking = view.run !== "" || view.state === "queued";
  const give = (type: "cancel" | "pause" | "resume" | "redo") => stream.request({ type } as Input);
  usePageCommands(!canWrite ? [] : [
    ...(undoableRun(view) && !isWorking ? [{ label: strings.session.undo, icon: "undo" as const, run: onUndo }] : []),
    ...(view.redoable && !isWorking ? [{ label: strings.session.redo, icon: "redo" as const, run: () => give("redo") }] : []),
    ...(view.undoable && !obstacle ? [{ label: strings.propose.menu, icon: "diff" as const, run: () => setProposing(true) }] : []),
    ...(isWorking ? [{ label: strings.session.stop, icon: "stop" as const, keys: "Esc Esc", run: () => give("cancel") }] : []),
  ]);
  return (
    <header className="shrink-0 border-b bg-panel px-3 py-1.5">
      <div className="flex items-center gap-2">
        <Link href="/" aria-label={strings.session.back} className="fade -ml-1 grid size-6 place-items-center rounded-row text-t3 hover:bg-hover sm:hidden"><Icon name="chevron" className="rotate-180" /></Link>
        <h1 className="min-w-0 truncate text-14 font-semibold"><SafeText text={title} /></h1>
        <StateMark state={view.state} />
        <LastChange />
        <span className="grow" />
        {canWrite && isWorking && <Button icon="stop" small onClick={() => give("cancel")}>{strings.session.stop}</Button>}
        {canWrite && view.state === "paused" && <Button kind="primary" icon="play" small onClick={() => give("resume")}>{strings.session.resume}</Button>}
        <Menu label={strings.session.more}>
          {canWrite && isWorking && <MenuItem icon="pause" onSelect={() => give("pause")}>{strings.session.pause}</MenuItem>}
          {canWrite && undoableRun(view) && <MenuItem icon="undo" onSelect={onUndo}>{strings.session.undo}</MenuItem>}
          {canWrite && view.redoable && <MenuItem icon="redo" onSelect={() => give("redo")}>{strings.session.redo}</MenuItem>}
          {canWrite && view.state !== "ended" && <MenuItem icon="gear" onSelect={() => setOptions(true)}>{strings.session.options}</MenuItem>}
          {canWrite && view.undoable && <MenuItem icon="diff" disabled={obstacle !== ""} detail={obstacle} onSelect={() => setProposing(true)}>{strings.propose.menu}</MenuItem>}
          {canManage && <MenuItem icon="person" onSelect={() => setSharing(true)}>{sharing.menu}</MenuItem>}
          <MenuItem icon="play" onSelect={() => go(`/s/${id}/play`)}>{strings.palette.play}</MenuItem>
          <MenuItem icon="download" onSelect={() => window.open(`/api/v1/sessions/${id}/record`, "_self")}>{strings.session.export}</MenuItem>
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
  return <Link href={`/c/${newest.id}`} title={newest.title} className="shrink-0"><ChangeState state={newest.state} /></Link>;
}

function Meter() {
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

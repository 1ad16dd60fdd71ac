// Propose the work of the last run as a change, also if the session was not opened for that.
import { useState } from "react";
import { Link } from "wouter";
import { post } from "../../api/http_client";
import { Button } from "../../shared/form_controls";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { strings } from "../../strings";
import { useSessionContext, useView } from "./session_context";
import { areTestsStale } from "./test_result_freshness";

/** Shown once there is work. If it cannot be proposed, the reason stands beside it. */
export function ProposeButton() {
  const { canWrite } = useSessionContext();
  const view = useView();
  const obstacle = useProposeObstacle();
  const [asking, setAsking] = useState(false);
  if (!canWrite) return null;
  const proposed = view.rows.findLast((row) => row.kind === "note" && row.what === "proposed");
  if (proposed?.kind === "note" && proposed.link && proposed.seq > (view.lastChange?.seq ?? 0)) {
    return <Link href={`/c/${proposed.link}`} className="text-link underline">{strings.propose.proposed}</Link>;
  }
  return (
    <>
      {obstacle && <span className="min-w-0 text-t3">{obstacle}</span>}
      <Button small icon="diff" disabled={obstacle !== ""} title={obstacle} onClick={() => setAsking(true)}>{strings.propose.button}</Button>
      {asking && <ProposeDialog key={view.undoable} onClose={() => setAsking(false)} />}
    </>
  );
}

/** Why the work cannot be proposed now; empty if it can. */
export function useProposeObstacle(): string {
  const { session } = useSessionContext();
  const view = useView();
  if (view.state === "ended") return strings.propose.ended;
  if (session && !session.repository) return strings.propose.noRepository;
  if (view.run !== "") return strings.propose.running;
  return view.undoable === "" ? strings.propose.noRun : "";
}

export function ProposeDialog({ onClose }: { onClose: () => void }) {
  const { session } = useSessionContext();
  const view = useView();
  const [error, setError] = useState<unknown>(null);
  const [isSending, setSending] = useState(false);
  const [failing, setFailing] = useState(false);
  const files = Object.keys(view.files).length;
  const fails = view.tests !== null && !view.tests.running && !view.tests.ok;
  const propose = () => {
    setSending(true);
    setError(null);
    post(`/runs/${view.undoable}/deliver`, { failing }).then(onClose, setError).finally(() => setSending(false));
  };
  return (
    <Dialog title={strings.propose.title} onClose={onClose}>
      <p className="text-t2">{strings.propose.detail(session?.repository ?? "", files)}</p>
      {fails && <p className="mt-2 text-bad">{strings.propose.failing(view.tests?.failed ?? 0)}</p>}
      {areTestsStale(view) && <p className="mt-2 text-warn">{strings.propose.stale}</p>}
      {(fails || error !== null) && (
        <label className="mt-3 flex items-center gap-2"><input type="checkbox" checked={failing} onChange={(event) => setFailing(event.target.checked)} className="size-4 accent-[var(--accent)]" />{strings.propose.anyway}</label>
      )}
      {error !== null && <div className="mt-3"><ProblemLine error={error} /></div>}
      <div className="mt-4 flex justify-end gap-2">
        <Button kind="quiet" onClick={onClose}>{strings.session.cancel}</Button>
        <Button kind="primary" data-first disabled={isSending} onClick={propose}>{strings.propose.button}</Button>
      </div>
    </Dialog>
  );
}

// Undo of the last run, or of one step of it. If others have changed the same lines since, the server refuses and one
// chooses.
import { useEffect, useRef, useState } from "react";
import { asProblem, giveInput } from "../../api/http_client";
import type { SessionStream } from "../../api/session_stream";
import type { Prompt, Row, Tool, View } from "../../fold/view_types";
import { Badge, Button } from "../../shared/form_controls";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { useSessionContext, useView } from "./session_context";

const isUndoable = (row: Row): row is Prompt => row.kind === "prompt" && row.state !== "queued" && !row.undone;

/** The last run that is not undone yet: the one that an undo takes back. */
export const undoableRun = (view: View) => view.rows.findLast(isUndoable)?.runId ?? "";

/** The runs that are taken back to go back before `run`: it and all later ones. */
export function runsToUndo(view: View, run: string): string[] {
  const runs = view.rows.filter(isUndoable).map((row) => row.runId);
  return runs.includes(run) ? runs.slice(runs.indexOf(run)) : [];
}

/** Wait until the log says that a run is undone. */
async function undone(stream: SessionStream, run: string): Promise<void> {
  if (undoableRun(stream.view) !== run) return;
  await new Promise<void>((done) => {
    const stop = stream.subscribe(() => {
      if (undoableRun(stream.view) === run) return;
      stop();
      done();
    });
  });
}

/** `to` is the first run to take back, `step` a single call. */
type Props = { step?: number; to?: string; refusal?: unknown; onClose: () => void };

export function UndoDialog({ step = 0, to = "", refusal = null, onClose }: Props) {
  const { id, stream } = useSessionContext();
  const view = useView();
  const [error, setError] = useState<unknown>(refusal);
  const [isBusy, setBusy] = useState(false);
  const isClosed = useRef(false);
  useEffect(() => {
    isClosed.current = false;
    return () => { isClosed.current = true; };
  }, []);
  const [runs] = useState(() => (to ? runsToUndo(view, to) : [undoableRun(view)]));
  const isOf = (row: Row) => (step ? row.seq === step : runs.includes(row.runId));
  const files = [...new Set(view.rows.flatMap((row) => (row.kind === "tool" && isOf(row) ? row.files.map((file) => file.path) : [])))];
  async function undo(how: { merge?: boolean; keep?: boolean; discard?: boolean } = {}) {
    setError(null);
    setBusy(true);
    try {
      let run = undoableRun(stream.view);
      await giveInput(id, { type: "undo", step, ...how } as Parameters<typeof giveInput>[1]);
      while (runs.length > 1) { // an undo takes one run back, so they go one after the other
        await undone(stream, run);
        run = undoableRun(stream.view);
        if (!runs.includes(run) || isClosed.current) break;
        await giveInput(id, { type: "undo" });
      }
      onClose();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  }
  const isOthersWork = error !== null && asProblem(error).paths.length > 0;
  const isRefused = error !== null && !isOthersWork && asProblem(error).status === 409; // nothing to choose: the reason says why
  return (
    <Dialog title={step ? strings.session.rejectTitle : strings.session.undoTitle(runs.length)} onClose={onClose}>
      {!isRefused && <p className="text-t2">{step ? strings.session.rejectDetail : strings.session.undoDetail(runs.length)}</p>}
      {!isRefused && files.length > 0 && <ul className="mt-2 max-h-40 overflow-auto rounded-row border bg-code px-2 py-1 font-mono text-12">{files.map((path) => <li key={path}><SafeText oneLine text={path} /></li>)}</ul>}
      {error !== null && <div className="mt-3"><ProblemLine error={error} /></div>}
      <div className="mt-4 flex flex-wrap justify-end gap-2">
        <Button kind="quiet" onClick={onClose}>{isRefused ? strings.session.close : strings.session.cancel}</Button>
        {isOthersWork ? (
          <>
            <Button onClick={() => void undo({ merge: true })}>{strings.session.undoMerge}</Button>
            <Button onClick={() => void undo({ keep: true })}>{strings.session.undoKeep}</Button>
            <Button kind="danger" onClick={() => void undo({ discard: true })}>{strings.session.undoDiscard}</Button>
          </>
        ) : (
          !isRefused && <Button kind="primary" data-first disabled={isBusy} onClick={() => void undo()}>{strings.session.undoButton}</Button>
        )}
      </div>
    </Dialog>
  );
}

/** Take back one call of the agent. Changes by others elsewhere in its files stay. */
export function RejectButton({ row }: { row: Tool }) {
  const { id, canWrite } = useSessionContext();
  const [refusal, setRefusal] = useState<unknown>(null);
  const [isSending, setSending] = useState(false);
  if (row.undone) return <Badge tone="warn">{strings.session.rejected}</Badge>;
  if (!canWrite || row.status !== "ok" || !row.files.length) return null;
  const reject = () => {
    setSending(true);
    giveInput(id, { type: "undo", step: row.seq }).catch(setRefusal).finally(() => setSending(false));
  };
  return (
    <>
      <Button kind="quiet" small icon="undo" disabled={isSending} onClick={reject}>{strings.session.reject}</Button>
      {refusal !== null && <UndoDialog step={row.seq} refusal={refusal} onClose={() => setRefusal(null)} />}
    </>
  );
}

// Asks before a step that cannot be taken back, with the server's words if it refuses.
import { type ReactNode, useState } from "react";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { Button } from "../../shared/form_controls";
import { text } from "../../strings/interviews";

type Props = { title: string; about: string; label: string; isDanger?: boolean; act: () => Promise<unknown>; error: unknown; onClose: () => void; children?: ReactNode };

/** `act` is true or undefined if it worked; the dialog then closes. */
export function ConfirmDialog({ title, about, label, isDanger = false, act, error, onClose, children }: Props) {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    const result = await act();
    setBusy(false);
    if (result !== false) onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void run(); }}>
        <p className="text-t2">{about}</p>
        {children}
        {error !== null && <div className="mt-3"><ProblemLine error={error} /></div>}
        <div className="mt-4 flex justify-end gap-2">
          <Button kind="quiet" onClick={onClose}>{text.cancel}</Button>
          <Button type="submit" kind={isDanger ? "danger" : "primary"} disabled={busy}>{label}</Button>
        </div>
      </form>
    </Dialog>
  );
}

// Asks before sessions are ended: that cannot be taken back.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { giveInput } from "../api/http_client";
import { Button } from "../shared/form_controls";
import { Dialog } from "../shared/dialog";
import { ProblemLine } from "../shared/error_message";
import { strings } from "../strings";

export function EndDialog({ ids, onClose, onDone }: { ids: string[]; onClose: () => void; onDone: () => void }) {
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  async function end() {
    const results = await Promise.allSettled(ids.map((id) => giveInput(id, { type: "end", reason: "" })));
    await queries.invalidateQueries({ queryKey: ["sessions"] });
    const failed = results.find((each) => each.status === "rejected");
    if (failed) setError(failed.reason);
    else {
      onDone();
      onClose();
    }
  }
  return (
    <Dialog title={strings.home.endTitle(ids.length)} onClose={onClose}>
      <p className="text-t2">{strings.home.endDetail}</p>
      {error !== null && <div className="mt-3"><ProblemLine error={error} /></div>}
      <div className="mt-4 flex justify-end gap-2">
        <Button kind="quiet" onClick={onClose}>{strings.home.cancel}</Button>
        <Button kind="danger" onClick={() => void end()}>{strings.home.end}</Button>
      </div>
    </Dialog>
  );
}

// Previews automatic assignment: the owner that each free task would get, and the reason.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { type Schemas, post } from "../../api/http_client";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { Badge, Button } from "../../shared/form_controls";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/tasks";

type Choices = Schemas["Choices"];
const s = text.suggest;

export function SuggestedOwnersDialog({ repository, onClose }: { repository: string; onClose: () => void }) {
  const queries = useQueryClient();
  const [failed, setFailed] = useState<Choices["failed"]>([]);
  const plan = useQuery({ queryKey: ["tasks", "suggested", repository], queryFn: () => post<Choices>("/tasks/assign", { repository, dry_run: true }), retry: false, gcTime: 0 });
  const carryOut = useMutation({
    mutationFn: () => post<Choices>("/tasks/assign", { repository, dry_run: false }),
    onSuccess: (done) => {
      void queries.invalidateQueries({ queryKey: ["tasks", "list"] });
      if (done.failed.length > 0) setFailed(done.failed);
      else onClose();
    },
  });
  const items = failed.length > 0 ? failed : plan.data?.items ?? [];
  const fitting = items.filter((each) => each.owner).length;
  return (
    <Dialog title={s.title} onClose={onClose} wide>
      <p className="text-t2">{failed.length > 0 ? s.failed : s.about}</p>
      {plan.isPending && <div className="skeleton mt-3 h-24" />}
      {plan.isError && <div className="mt-3"><ProblemLine error={plan.error} /><p className="mt-1 text-t2">{s.teach}</p><code className="mt-1 block rounded-card border bg-code px-2 py-1">{s.example}</code></div>}
      {plan.data && items.length === 0 && <p className="mt-3 text-t2">{s.none}</p>}
      <ul className="mt-3 space-y-1">
        {items.map((each) => (
          <li key={each.task_id} className="rounded-card border bg-panel p-2">
            <span className="flex flex-wrap items-center gap-x-2"><Link href={`/tasks/${each.task_id}`} className="font-semibold text-link underline">{each.key}</Link><span className="min-w-0 truncate"><SafeText text={each.title} oneLine /></span><span aria-hidden="true">→</span><Badge tone={each.owner ? "info" : "none"}><SafeText text={each.owner || s.nobody} /></Badge></span>
            <span className="mt-0.5 block text-12 break-words text-t2"><SafeText text={each.why} /></span>
          </li>
        ))}
      </ul>
      {carryOut.isError && <ProblemLine error={carryOut.error} />}
      <div className="mt-3 flex justify-end gap-2">
        <Button kind="quiet" onClick={onClose}>{text.page.cancel}</Button>
        {failed.length === 0 && <Button kind="primary" disabled={fitting === 0 || carryOut.isPending} onClick={() => carryOut.mutate()}>{s.carryOut(fitting)}</Button>}
      </div>
    </Dialog>
  );
}

// Changes that wait to be sent, changes that the server has refused, and conflicts with newer changes of other users.
import { useState } from "react";
import { useServerConnection } from "../../api/server_reachability_and_build";
import { Button } from "../../shared/form_controls";
import { SafeText } from "../../shared/safe_text";
import { useSeconds } from "../../shared/current_time";
import { text } from "../../strings/tasks";
import { ConflictDialog } from "./concurrent_edit_conflict_dialog";
import { type Unsent, type UnsentChange, discardUnsent, sendAgain, sendUnsent, useUnsent } from "./unsent_task_changes";

const QUIET_MS = 1500; // a change that is on its way needs no words

const isConflict = (each: Unsent): each is UnsentChange => each.kind === "change" && each.status === "conflict";

/** `task` limits it to one task. */
export function UnsentNotice({ task = "" }: { task?: string }) {
  const [resolving, setResolving] = useState("");
  const unsent = useUnsent().filter((each) => !task || (each.kind === "change" && each.task === task));
  const waiting = unsent.filter((each) => each.status === "waiting");
  const conflicts = unsent.filter(isConflict);
  const refused = unsent.filter((each) => each.status === "refused");
  const chosen = conflicts.find((each) => each.id === resolving);
  const isLate = useIsLate(waiting[0]?.id ?? "");
  return (
    <div role="status" aria-label={text.unsent.resolve} className="shrink-0">
      {waiting.length > 0 && isLate && <Line tone="bg-hover text-t2" words={text.unsent.waiting(waiting.length)}><Button kind="quiet" small onClick={sendUnsent}>{text.unsent.now}</Button></Line>}
      {conflicts.length > 0 && <Line tone="bg-warn-tint text-warn" words={text.unsent.conflicts(conflicts.length)}><Button small onClick={() => setResolving(conflicts[0]?.id ?? "")}>{text.unsent.resolve}</Button></Line>}
      {refused.map((each) => (
        <Line key={each.id} tone="bg-bad-tint text-bad" words={<><SafeText text={each.kind === "new" ? each.body.title : `${each.key} ${each.title}`} />: <SafeText text={each.problem} /></>}>
          <Button kind="quiet" small onClick={() => sendAgain(each.id)}>{text.unsent.again}</Button>
          <Button kind="quiet" small onClick={() => discardUnsent(each.id)}>{text.unsent.drop}</Button>
        </Line>
      ))}
      {chosen && <ConflictDialog change={chosen} onClose={() => setResolving("")} />}
    </div>
  );
}

function Line({ tone, words, children }: { tone: string; words: React.ReactNode; children: React.ReactNode }) {
  return <div className={`flex min-h-8 flex-wrap items-center gap-x-3 gap-y-1 border-b px-3 py-1 text-13 ${tone}`}><span className="min-w-0 break-words">{words}</span>{children}</div>;
}

/** True if a change has waited for longer than a request takes, or the server is known to be unreachable. */
function useIsLate(id: string): boolean {
  const { downSinceMs } = useServerConnection();
  const now = useSeconds(id !== "");
  const [since, setSince] = useState({ id: "", atMs: 0 });
  if (since.id !== id) setSince({ id, atMs: now });
  return id !== "" && (downSinceMs > 0 || now - since.atMs > QUIET_MS);
}

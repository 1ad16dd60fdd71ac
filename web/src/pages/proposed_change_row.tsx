// One change in a list: its title, branch, tests and state.
import { Link } from "wouter";
import type { Change } from "../api/http_client";
import { ago, repositoryName } from "../display_format";
import { Badge } from "../shared/form_controls";
import { Icon } from "../shared/icons";
import { SafeText } from "../shared/safe_text";
import { strings } from "../strings";

const TONES: Record<string, "ok" | "agent" | "none"> = { open: "ok", merged: "agent", closed: "none" };

export function ChangeState({ state }: { state: string }) {
  return <Badge tone={TONES[state] ?? "none"}>{strings.changeList.mark[state] ?? state}</Badge>;
}

export function ChangeRow({ change, now, withState = false }: { change: Change; now: number; withState?: boolean }) {
  return (
    <li className="fade relative flex h-8 items-center gap-2 border-b bg-panel px-3 hover:bg-hover has-[a:focus-visible]:bg-hover pointer-coarse:h-11">
      <Icon name="diff" className="text-t3" />
      <Link href={`/c/${change.id}`} data-row={change.id} className="inset-focus min-w-0 truncate font-semibold after:absolute after:inset-0"><SafeText text={change.title} /></Link>
      {withState && <ChangeState state={change.state} />}
      <span className="min-w-0 grow truncate text-t3 max-sm:hidden"><code><SafeText text={`${change.base} ← ${change.branch}`} /></code></span>
      <span className="grow sm:hidden" />
      {withState && <span className="max-w-32 truncate text-t2 max-md:hidden">{repositoryName(change.repository)}</span>}
      {change.tests && <Badge tone={/fail/i.test(change.tests) ? "bad" : "ok"}><SafeText text={change.tests} /></Badge>}
      <time className="w-10 shrink-0 text-right text-12 text-t3">{ago(change.created_ms, now)}</time>
    </li>
  );
}

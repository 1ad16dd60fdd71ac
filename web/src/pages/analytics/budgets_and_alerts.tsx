// Budgets of a month, which owners set and remove, and the newest alerts.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Link } from "wouter";
import { type Schemas, get, post, send } from "../../api/http_client";
import { useUsers } from "../../api/queries";
import { ago, dollars } from "../../display_format";
import { useNow } from "../../shared/current_time";
import { ProblemLine } from "../../shared/error_message";
import { Badge, Button, Field } from "../../shared/form_controls";
import { SafeText, showHidden } from "../../shared/safe_text";
import { text } from "../../strings/analytics";
import { Choice } from "./report_filters";
import { Scrolled } from "./report_table";

type Budget = Schemas["Budget"];
type NewBudget = { scope: Budget["scope"]; target: string; limit_usd: number };
type Change = { add?: NewBudget; remove?: Budget };
const REFRESH_MS = 15_000;
const TONES: Record<Schemas["Alert"]["kind"], "warn" | "bad"> = { budget: "warn", no_progress: "warn", tool_errors: "bad", provider: "bad", unpriced: "warn" };
const b = text.budgets;

export function BudgetsAndAlerts({ user }: { user: Schemas["User"] }) {
  return <div className="grid gap-4 xl:grid-cols-2"><Budgets user={user} /><Alerts /></div>;
}

function Budgets({ user }: { user: Schemas["User"] }) {
  const isOwner = user.role === "owner";
  const queries = useQueryClient();
  const users = useUsers(isOwner);
  const budgets = useQuery({ queryKey: ["budgets"], queryFn: () => get<Budget[]>("/analytics/budgets"), refetchInterval: REFRESH_MS });
  const nameOf = ({ scope, target }: { scope: Budget["scope"]; target: string }) => (scope === "installation" ? b.scopes[scope] ?? scope : scope === "repository" ? target : target === user.id ? b.you : users.data?.find((each) => each.id === target)?.name ?? target);
  const change = useMutation({
    mutationFn: async ({ add, remove }: Change) => {
      if (remove) await send(`/analytics/budgets/${remove.id}`, { method: "DELETE" });
      if (add) await post("/analytics/budgets", add);
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ["budgets"] }),
  });
  const done = change.isSuccess ? change.variables : undefined;
  const undone = done?.remove;
  return (
    <section aria-labelledby="budgets" className="min-w-0">
      <h2 id="budgets" className="font-semibold">{b.title}</h2>
      {budgets.isError && <ProblemLine error={budgets.error} retry={() => void budgets.refetch()} />}
      {budgets.data?.length === 0 && <p className="mt-2 max-w-prose text-t2">{isOwner ? b.teach : b.teachOthers}</p>}
      {budgets.data && budgets.data.length > 0 && (
        <div className="mt-2 rounded-card border bg-panel">
          <Scrolled label={text.table}>
            <table className="w-full border-collapse text-13">
              <thead><tr className="border-b text-left text-12 text-t2"><th scope="col" className="px-2 py-1">{b.columns.name}</th><th scope="col" className="px-2 py-1">{b.columns.spent}</th><th scope="col" className="px-2 py-1">{b.columns.used}</th>{isOwner && <th scope="col" className="px-2 py-1"><span className="sr-only">{b.columns.action}</span></th>}</tr></thead>
              <tbody>{budgets.data.map((each) => <BudgetRow key={each.id} budget={each} name={nameOf(each)} {...(isOwner ? { remove: () => change.mutate({ remove: each }) } : {})} />)}</tbody>
            </table>
          </Scrolled>
        </div>
      )}
      <div role="status" className="mt-2 flex min-h-6 flex-wrap items-center gap-2 text-12 text-t2">
        {done?.add && <SafeText text={b.added(nameOf(done.add))} />}
        {undone && <><SafeText text={b.removed(nameOf(undone))} /><Button kind="quiet" small icon="undo" onClick={() => change.mutate({ add: { scope: undone.scope, target: undone.target, limit_usd: undone.limit_usd } })}>{b.undo}</Button></>}
      </div>
      {change.isError && <ProblemLine error={change.error} />}
      {isOwner && <BudgetForm users={users.data ?? []} isBusy={change.isPending} add={(added) => change.mutate({ add: added })} />}
    </section>
  );
}

function BudgetRow({ budget, name, remove }: { budget: Budget; name: string; remove?: () => void }) {
  const tone = budget.percent >= 100 ? "bg-bad" : budget.percent >= 80 ? "bg-warn" : "bg-accent";
  return (
    <tr className="border-b last:border-b-0">
      <th scope="row" className="max-w-64 truncate px-2 py-1 text-left font-normal" title={showHidden(name)}><SafeText text={name} oneLine /></th>
      <td className="px-2 py-1 whitespace-nowrap">{b.spent(dollars(budget.spent_usd), dollars(budget.limit_usd))}{budget.reserved_usd > 0 && <span className="meta block">{b.reserved(dollars(budget.reserved_usd))}</span>}</td>
      <td className="px-2 py-1 whitespace-nowrap"><span className="mr-2 inline-block w-12 text-right">{b.share(budget.percent)}</span><span aria-hidden="true" className="inline-block h-1 w-20 rounded-full bg-hover align-middle"><span className={`block h-1 rounded-full ${tone}`} style={{ width: `${Math.min(100, budget.percent)}%` }} /></span></td>
      {remove && <td className="px-2 py-1 text-right"><Button kind="quiet" small aria-label={showHidden(b.removeOne(name))} onClick={remove}>{b.remove}</Button></td>}
    </tr>
  );
}

function BudgetForm({ users, isBusy, add }: { users: Schemas["User"][]; isBusy: boolean; add: (budget: NewBudget) => void }) {
  const [scope, setScope] = useState<Budget["scope"]>("installation");
  const [repository, setRepository] = useState("");
  const [person, setPerson] = useState("");
  const [limit, setLimit] = useState("");
  const target = scope === "installation" ? "" : scope === "user" ? person || (users[0]?.id ?? "") : repository.trim();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add({ scope, target, limit_usd: Number(limit) });
  };
  return (
    <form onSubmit={submit} className="flex flex-wrap items-end gap-2">
      <Choice label={b.scope} value={scope} onChange={(value) => setScope(value as Budget["scope"])} options={Object.entries(b.scopes)} />
      {scope === "user" && <Choice label={b.user} value={target} onChange={setPerson} options={users.map((each) => [each.id, each.name])} />}
      {scope === "repository" && <Field required aria-label={b.repository} placeholder={b.repositoryHint} value={repository} onChange={(event) => setRepository(event.target.value)} className="w-64" />}
      <Field required type="number" min="0.01" step="any" aria-label={b.limit} placeholder={b.limit} value={limit} onChange={(event) => setLimit(event.target.value)} className="w-40" />
      <Button type="submit" disabled={isBusy}>{b.set}</Button>
    </form>
  );
}

function Alerts() {
  const now = useNow();
  const alerts = useQuery({ queryKey: ["alerts"], queryFn: () => get<Schemas["Alert"][]>("/analytics/alerts?limit=100"), refetchInterval: REFRESH_MS });
  return (
    <section aria-labelledby="alerts" className="min-w-0">
      <h2 id="alerts" className="font-semibold">{text.alerts.title}</h2>
      {alerts.isError && <ProblemLine error={alerts.error} retry={() => void alerts.refetch()} />}
      {alerts.data?.length === 0 && <p className="mt-2 max-w-prose text-t2">{text.alerts.none}</p>}
      <ul className="mt-2 space-y-1">
        {alerts.data?.map((each) => (
          <li key={each.id} className="flex flex-wrap items-center gap-x-2 rounded-card border bg-panel px-2 py-1">
            <Badge tone={TONES[each.kind]}>{text.alerts.kinds[each.kind] ?? each.kind}</Badge>
            <span className="min-w-0 break-words"><SafeText text={each.text} /></span>
            <time dateTime={new Date(each.at_ms).toISOString()} title={new Date(each.at_ms).toLocaleString("en-GB")} className="meta ml-auto">{ago(each.at_ms, now)}</time>
            {each.session_id && <Link href={`/s/${each.session_id}`} className="text-12 text-link underline">{text.alerts.session}</Link>}
          </li>
        ))}
      </ul>
    </section>
  );
}

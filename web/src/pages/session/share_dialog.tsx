// Sharing of a session: its users with their roles, and a link for a person without an account.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { type Schemas, get, post, send } from "../../api/http_client";
import { useUsers } from "../../api/queries";
import { copyText } from "../../clipboard";
import { Badge, Button, Field } from "../../shared/form_controls";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/sharing";
import { useSessionContext } from "./session_context";

type Scope = "prompt" | "files" | "commands" | "terminals" | "previews";
const DAY_MS = 24 * 3600 * 1000;
const CHOICE = "mt-1 block h-7 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1 pointer-coarse:h-11";
const WORKING = ["member", "candidate"];

export function ShareDialog({ onClose }: { onClose: () => void }) {
  const { id, session, me } = useSessionContext();
  const queries = useQueryClient();
  const isOwner = me.role === "owner";
  const users = useUsers(isOwner);
  const shares = useQuery({ queryKey: ["shares", id], queryFn: () => get<Schemas["Share"][]>(`/sessions/${id}/shares`) });
  const act = useMutation({ mutationFn: (change: () => Promise<unknown>) => change(), onSuccess: () => queries.invalidateQueries({ queryKey: ["shares", id] }) });
  const put = (user: string, body: Partial<Schemas["NewShare"]>) => post(`/sessions/${id}/shares/${encodeURIComponent(user)}`, body, "PUT");
  const changeRole = (share: Schemas["Share"], role: Schemas["Share"]["role"]) =>
    act.mutate(() => put(share.user_id, { role, expires_ms: share.expires_ms, scopes: WORKING.includes(role) ? (share.scopes as Scope[]) : [] }));
  const known = new Set([session?.owner, ...(shares.data ?? []).map((each) => each.user_id)]);
  return (
    <Dialog title={text.title} onClose={onClose} wide>
      {shares.isError && <ProblemLine error={shares.error} retry={() => void shares.refetch()} />}
      <ul className="rounded-card border">
        <li className="flex min-h-8 items-center gap-2 border-b px-3 last:border-b-0"><b><SafeText text={session?.owner_name ?? ""} /></b><span className="text-t2">{text.owner}</span></li>
        {shares.data?.map((each) => (
          <li key={each.user_id} className="flex min-h-8 flex-wrap items-center gap-2 border-b px-3 py-1 last:border-b-0">
            <b className="min-w-0 truncate"><SafeText text={each.user_name} /></b>
            {each.scopes.length > 0 && <Badge tone="warn">{text.limited(each.scopes.map((scope) => text.scopes[scope] ?? scope).join(", "))}</Badge>}
            {each.expires_ms !== null && <span className="meta">{text.ends(new Date(each.expires_ms).toLocaleDateString("en-GB"))}</span>}
            <span className="grow" />
            <select aria-label={text.roleOf(each.user_name)} value={each.role} onChange={(event) => changeRole(each, event.target.value as Schemas["Share"]["role"])} className="h-6 rounded-row border border-edge bg-panel px-1 text-12 pointer-coarse:h-11">{Object.entries(text.roles).map(([role, name]) => <option key={role} value={role}>{name}</option>)}</select>
            <Button small kind="danger" aria-label={text.withdrawFrom(each.user_name)} onClick={() => act.mutate(() => send(`/sessions/${id}/shares/${each.user_id}`, { method: "DELETE" }))}>{text.withdraw}</Button>
          </li>
        ))}
      </ul>
      <p className="meta mt-1">{shares.data?.length === 0 ? `${text.nobody} ` : ""}{text.owners}</p>
      <NewShare names={users.data?.filter((each) => !known.has(each.id) && !each.disabled).map((each) => each.name) ?? []} add={(name, body, done) => act.mutate(() => put(name, body).then(done))} />
      {act.isError && <div className="mt-2"><ProblemLine error={act.error} /></div>}
      {isOwner && <InviteLink id={id} />}
      <div className="mt-4 flex justify-end"><Button onClick={onClose}>{text.close}</Button></div>
    </Dialog>
  );
}

function NewShare({ names, add }: { names: string[]; add: (name: string, body: Partial<Schemas["NewShare"]>, done: () => void) => void }) {
  const [role, setRole] = useState<Schemas["Share"]["role"]>("observer");
  function submit(event: SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = event.currentTarget;
    const values = new FormData(form);
    const days = Number(values.get("days"));
    const scopes = values.getAll("scopes").map(String) as Scope[];
    add(String(values.get("name")).trim(), { role, scopes, expires_ms: days ? Date.now() + days * DAY_MS : null }, () => {
      form.reset();
      setRole("observer");
    });
  }
  return (
    <form className="mt-4 space-y-2" onSubmit={submit}>
      <div className="flex flex-wrap items-end gap-2">
        <label className="grow text-12 text-t2">{text.add}<Field name="name" required list="share-users" placeholder={text.addHint} autoComplete="off" className="mt-1 block w-full" /></label>
        <datalist id="share-users">{names.map((each) => <option key={each} value={each} />)}</datalist>
        <label className="text-12 text-t2">{text.role}<select value={role} onChange={(event) => setRole(event.target.value as typeof role)} className={CHOICE}>{Object.entries(text.roles).map(([value, name]) => <option key={value} value={value}>{name}</option>)}</select></label>
        <label className="text-12 text-t2">{text.until}<select name="days" className={CHOICE}>{Object.entries(text.days).map(([days, words]) => <option key={days} value={days}>{words}</option>)}</select></label>
        <Button type="submit" kind="primary">{text.share}</Button>
      </div>
      <p className="meta">{text.rolesAbout[role]}</p>
      {WORKING.includes(role) && (
        <fieldset className="flex flex-wrap items-center gap-x-3 gap-y-1 text-12">
          <legend className="sr-only">{text.only}</legend>
          <span className="text-t2">{text.only}</span>
          {Object.entries(text.scopes).map(([scope, name]) => <label key={scope} className="flex min-h-6 items-center gap-1"><input type="checkbox" name="scopes" value={scope} className="accent-accent" />{name}</label>)}
          <span className="meta">{text.onlyAbout}</span>
        </fieldset>
      )}
    </form>
  );
}

function InviteLink({ id }: { id: string }) {
  const [copied, setCopied] = useState(false);
  const make = useMutation({ mutationFn: () => post<Schemas["Link"]>("/invites", { role: "observer", session_id: id, share_role: "observer", days: 7 }) });
  return (
    <section aria-label={text.link} className="mt-4 border-t pt-3">
      <h3 className="font-semibold">{text.link}</h3>
      <p className="meta mt-0.5">{text.linkAbout}</p>
      {make.isError && <ProblemLine error={make.error} />}
      {make.data
        ? <p role="status" className="mt-2 flex flex-wrap items-center gap-2 rounded-row bg-ok-tint p-2 text-ok">{text.linkOnce} <code className="min-w-0 grow break-all select-all">{make.data.url}</code><Button small onClick={() => void copyText(make.data.url).then(() => setCopied(true))}>{copied ? text.copied : text.copy}</Button></p>
        : <Button className="mt-2" disabled={make.isPending} onClick={() => make.mutate()}>{text.makeLink}</Button>}
    </section>
  );
}

// Secrets: set, replaced and deleted; only their names and uses come back from the server.
import { useQuery } from "@tanstack/react-query";
import { type SubmitEvent, useRef, useState } from "react";
import { Link } from "wouter";
import { type Schemas, get, post, send } from "../../api/http_client";
import { Badge, Button, Field } from "../../shared/form_controls";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { text } from "../../strings/secrets";
import { Card, Table, useDo } from "./shared_settings_parts";

type Secret = Schemas["Secret"];
type Kind = { path: string; nameOf: (secret: Secret) => string };
const OWN: Kind = { path: "/users/me/secrets", nameOf: (secret) => secret.variable };
const INSTALLATION: Kind = { path: "/secrets", nameOf: (secret) => secret.name };

export function Secrets({ user }: { user: Schemas["User"] }) {
  return (
    <>
      <p className="text-t2">{text.about}</p>
      {(user.role === "owner" || user.role === "member") && <Section kind={OWN} title={text.own} about={text.ownAbout} empty={text.noOwn} label={text.variable} />}
      {user.role === "owner" && <Section kind={INSTALLATION} title={text.installation} about={text.installationAbout} empty={text.noInstallation} label={text.name} />}
    </>
  );
}

function Section({ kind, title, about, empty, label }: { kind: Kind; title: string; about: string; empty: string; label: string }) {
  const secrets = useQuery({ queryKey: ["secrets", kind.path], queryFn: async () => (await get<Schemas["SecretPage"]>(kind.path)).items });
  const act = useDo(["secrets"]);
  const [name, setName] = useState("");
  const [done, setDone] = useState("");
  const [removed, setRemoved] = useState<Secret | null>(null);
  const value = useRef<HTMLTextAreaElement>(null);
  const isOwn = kind === OWN;
  const set = (secrets.data ?? []).filter((each) => each.source !== "");
  const chosen = secrets.data?.find((each) => kind.nameOf(each) === name.trim());
  function store(event: SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const field = value.current;
    if (!field) return;
    act.mutate(() => post<Secret>(`${kind.path}/${encodeURIComponent(name.trim())}`, { value: field.value }, "PUT").then((stored) => {
      field.value = "";
      setName("");
      setDone(stored.source === "vault" ? text.stored(kind.nameOf(stored)) : text.shadowed(kind.nameOf(stored), stored.source));
    }));
  }
  function remove(secret: Secret) {
    setRemoved(null);
    setDone("");
    act.mutate(() => send(`${kind.path}/${encodeURIComponent(kind.nameOf(secret))}`, { method: "DELETE" }));
  }
  return (
    <Card title={title} about={about}>
      {secrets.isError && <ProblemLine error={secrets.error} retry={() => void secrets.refetch()} />}
      {secrets.data && <Table head={isOwn ? [text.variable, text.sessions, ""] : [text.name, text.usedFor, text.source, text.sessions, ""]} empty={empty} rows={set.map((each) => [
        <span key="name" className="flex flex-wrap items-center gap-x-2"><code className="break-all">{isOwn ? each.variable : each.user_id ? each.name.replace(`_${each.user_id}`, "") : each.name}</code>{!isOwn && each.user_name && <Badge><SafeText text={each.user_name} /></Badge>}</span>,
        ...(isOwn ? [] : [<span key="for" className="text-t2"><SafeText text={each.used_for} /></span>, <Badge key="source" tone={each.source === "vault" ? "ok" : "info"}><SafeText text={each.source} /></Badge>]),
        <SessionLinks key="sessions" ids={each.sessions} />,
        each.stored ? <span key="actions" className="flex justify-end gap-1">
          <Button small kind="quiet" aria-label={text.replaceName(kind.nameOf(each))} onClick={() => { setName(kind.nameOf(each)); value.current?.focus(); }}>{text.replace}</Button>
          <Button small kind="danger" aria-label={text.removeName(kind.nameOf(each))} onClick={() => setRemoved(each)}>{text.remove}</Button>
        </span> : "",
      ])} />}
      <form className="mt-3 flex flex-wrap items-end gap-2" onSubmit={store}>
        <label className="text-12 text-t2">{label}<Field value={name} onChange={(event) => setName(event.target.value)} list={isOwn ? undefined : "secret-names"} required maxLength={isOwn ? 128 : 200} placeholder={isOwn ? "STRIPE_KEY" : "anthropic_api_key"} autoComplete="off" spellCheck={false} className="mt-1 block w-60 font-mono text-12" /></label>
        {!isOwn && <datalist id="secret-names">{secrets.data?.map((each) => <option key={each.name} value={each.name}>{each.used_for}</option>)}</datalist>}
        <label className="min-w-40 grow text-12 text-t2">{text.value}<textarea ref={value} name="value" rows={1} required autoComplete="off" spellCheck={false} className="masked mt-1 block h-7 w-full resize-y rounded-row border border-edge bg-panel px-2 py-1 text-13 text-t1 pointer-coarse:h-11" /></label>
        <Button type="submit" kind="primary" disabled={act.isPending}>{text.store}</Button>
      </form>
      {!isOwn && chosen && <p className="meta mt-1"><SafeText text={`${text.usedFor}: ${chosen.used_for}`} /></p>}
      {act.isError && <div className="mt-2"><ProblemLine error={act.error} /></div>}
      {done && !act.isError && <p role="status" className="mt-2 text-ok">{done}</p>}
      {removed && (
        <Dialog title={text.removeTitle(kind.nameOf(removed))} onClose={() => setRemoved(null)}>
          <p className="text-t2">{text.removeDetail}{removed.sessions.length > 0 && ` ${text.removeSessions(removed.sessions.length)}`}</p>
          <div className="mt-4 flex justify-end gap-2">
            <Button kind="quiet" onClick={() => setRemoved(null)}>{strings.session.cancel}</Button>
            <Button kind="danger" onClick={() => remove(removed)}>{text.remove}</Button>
          </div>
        </Dialog>
      )}
    </Card>
  );
}

const MAX_LINKS = 3;

function SessionLinks({ ids }: { ids: string[] }) {
  if (ids.length === 0) return <span className="text-t3">—</span>;
  return (
    <span className="flex flex-wrap gap-x-2">
      {ids.slice(0, MAX_LINKS).map((id) => <Link key={id} href={`/s/${id}`} title={id} className="font-mono text-12 text-link underline">…{id.slice(-6)}</Link>)}
      {ids.length > MAX_LINKS && <span className="meta">+{ids.length - MAX_LINKS}</span>}
    </span>
  );
}

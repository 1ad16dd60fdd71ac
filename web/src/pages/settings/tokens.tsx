// API tokens: scopes, expiry, last use.
import { useQuery } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { type Schemas, get, post, send } from "../../api/http_client";
import { copyText } from "../../clipboard";
import { ago } from "../../display_format";
import { Badge, Button, Field } from "../../shared/form_controls";
import { Dialog } from "../../shared/dialog";
import { useNow } from "../../shared/current_time";
import { ProblemLine } from "../../shared/error_message";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { text } from "../../strings/api_tokens";
import { CHOICE, Card, Table, useDo } from "./shared_settings_parts";

type Token = Schemas["Token"];
type Scope = Token["scopes"][number];
const SCOPES: Scope[] = ["read", "write", "admin"];
const OF_ROLE: Record<string, Scope[]> = { owner: SCOPES, member: ["read", "write"], candidate: ["read", "write"] };
const nameOf = (token: Token) => token.name || token.prefix;

export function Tokens({ user }: { user: Schemas["User"] }) {
  const now = useNow();
  const tokens = useQuery({ queryKey: ["tokens"], queryFn: async () => (await get<Schemas["TokenPage"]>("/tokens?limit=100")).items });
  const act = useDo(["tokens"]);
  const [revoked, setRevoked] = useState<Token | null>(null);
  const shown = (tokens.data ?? []).filter((each) => !each.revoked_ms);
  function revoke(token: Token) {
    setRevoked(null);
    act.mutate(() => send(`/tokens/${token.id}`, { method: "DELETE" }));
  }
  return (
    <>
      <p className="text-t2">{text.about}</p>
      <NewToken scopes={OF_ROLE[user.role] ?? ["read"]} />
      {(tokens.isError || act.isError) && <ProblemLine error={tokens.error ?? act.error} />}
      {tokens.data && <Table head={[text.name, text.scopes, text.created, text.used, text.expires, ""]} empty={text.none} rows={shown.map((each) => [
        <span key="name" title={each.prefix}>{each.name ? <SafeText text={each.name} /> : <code>{each.prefix}</code>}</span>,
        <span key="scopes" className="flex gap-1">{each.scopes.map((scope) => <Badge key={scope} tone={scope === "admin" ? "warn" : "none"}>{text.scope[scope]}</Badge>)}</span>,
        <span key="created" className="whitespace-nowrap text-t2">{ago(each.created_ms, now)}</span>,
        <span key="used" className="whitespace-nowrap text-t2">{each.last_used_ms ? ago(each.last_used_ms, now) : text.unused}</span>,
        each.expires_ms === null ? <Badge key="expires" tone="warn">{text.never}</Badge> : each.expires_ms < now ? <Badge key="expires">{text.expired}</Badge> : <time key="expires" className="whitespace-nowrap text-t2">{new Date(each.expires_ms).toLocaleDateString("en-GB")}</time>,
        <Button key="revoke" small kind="danger" aria-label={text.revokeName(nameOf(each))} onClick={() => setRevoked(each)}>{text.revoke}</Button>,
      ])} />}
      {revoked && (
        <Dialog title={text.revokeTitle(nameOf(revoked))} onClose={() => setRevoked(null)}>
          <p className="text-t2">{text.revokeDetail}</p>
          <div className="mt-4 flex justify-end gap-2">
            <Button kind="quiet" onClick={() => setRevoked(null)}>{strings.session.cancel}</Button>
            <Button kind="danger" onClick={() => revoke(revoked)}>{text.revoke}</Button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function NewToken({ scopes }: { scopes: Scope[] }) {
  const act = useDo(["tokens"]);
  const [chosen, setChosen] = useState<Scope>("read");
  const [days, setDays] = useState("90");
  const [made, setMade] = useState("");
  const [copied, setCopied] = useState(false);
  function create(event: SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = event.currentTarget;
    const name = String(new FormData(form).get("name") ?? "");
    const body = { name, scopes: scopes.slice(0, scopes.indexOf(chosen) + 1), days: days ? Number(days) : null };
    act.mutate(() => post<Schemas["CreatedToken"]>("/tokens", body).then((created) => {
      setMade(created.token);
      setCopied(false);
      form.reset();
    }));
  }
  return (
    <Card title={text.create} about={text.implied}>
      <form className="space-y-3" onSubmit={create}>
        <div className="flex flex-wrap gap-3">
          <label className="text-12 text-t2">{text.name}<Field name="name" required maxLength={100} placeholder={text.nameHint} autoComplete="off" className="mt-1 block w-64" /></label>
          <label className="text-12 text-t2">{text.expires}<select value={days} onChange={(event) => setDays(event.target.value)} className={CHOICE}>{["7", "30", "90", "365", ""].map((each) => <option key={each} value={each}>{text.days[each]}</option>)}</select></label>
        </div>
        <fieldset>
          <legend className="text-12 text-t2">{text.scopes}</legend>
          {scopes.map((scope) => (
            <label key={scope} className="mt-1 flex items-center gap-2"><input type="radio" name="scope" checked={chosen === scope} onChange={() => setChosen(scope)} className="accent-accent" /><b className="w-14 shrink-0">{text.scope[scope]}</b><span className="text-t2">{text.scopeAbout[scope]}</span></label>
          ))}
        </fieldset>
        {days === "" && <p className="text-warn">{text.neverWarning}</p>}
        <Button type="submit" kind="primary" disabled={act.isPending}>{text.button}</Button>
      </form>
      {act.isError && <div className="mt-2"><ProblemLine error={act.error} /></div>}
      {made && <p role="status" className="mt-3 flex flex-wrap items-center gap-2 rounded-row bg-ok-tint p-2 text-ok">{text.once} <code className="min-w-0 grow break-all select-all">{made}</code><Button small onClick={() => void copyText(made).then(setCopied)}>{copied ? text.copied : text.copy}</Button></p>}
    </Card>
  );
}

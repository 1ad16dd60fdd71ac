// The user's own settings: theme, notifications, password, browsers, permanent approvals, model keys.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, get, post, send } from "../../api/http_client";
import { deleteViews } from "../../api/stored_folds";
import { useModels } from "../../api/queries";
import { ago } from "../../display_format";
import { Badge, Button, Field } from "../../shared/form_controls";
import { notifying, setNotifying, useNotifying } from "../../shared/notifications";
import { useNow } from "../../shared/current_time";
import { ProblemLine } from "../../shared/error_message";
import { areCharacterKeysOn, setCharacterKeys } from "../../shared/shortcuts";
import { SafeText, WithCode } from "../../shared/safe_text";
import { strings } from "../../strings";
import { type Theme, currentTheme, setTheme } from "../../theme";
import { Card, Table, useDo } from "./shared_settings_parts";

type User = Schemas["User"];
const text = strings.settings;

export function You({ user }: { user: User }) {
  const [theme, choose] = useState<Theme>(currentTheme);
  const now = useNow();
  const browsers = useQuery({ queryKey: ["browsers"], queryFn: async () => (await get<Schemas["BrowserPage"]>("/me/browsers")).items });
  const act = useDo(["browsers"]);
  const password = useDo(["login"]);
  const queries = useQueryClient();
  return (
    <>
      <Card title={user.name} about={text.role(user.role)}>
        <div className="flex gap-2">
          <Button onClick={() => void post("/logout", { everywhere: false }).then(() => { localStorage.clear(); sessionStorage.clear(); deleteViews(); return queries.invalidateQueries(); })}>{text.logOut}</Button>
          <Button kind="quiet" onClick={() => void post("/logout", { everywhere: true }).then(() => { localStorage.clear(); sessionStorage.clear(); deleteViews(); return queries.invalidateQueries(); })}>{text.logOutEverywhere}</Button>
        </div>
      </Card>
      <Card title={text.theme}>
        <fieldset className="flex gap-4">
          <legend className="sr-only">{text.theme}</legend>
          {(["auto", "light", "dark"] as const).map((each) => (
            <label key={each} className="flex items-center gap-1.5"><input type="radio" name="theme" checked={theme === each} onChange={() => { setTheme(each); choose(each); void send("/users/me/preferences", { method: "PATCH", body: { theme: each } }); }} className="accent-accent" />{strings.theme[each]}</label>
          ))}
        </fieldset>
      </Card>
      <Card title={strings.keys.title} about={text.characterKeysAbout}>
        <label className="flex items-center gap-1.5"><input type="checkbox" defaultChecked={areCharacterKeysOn()} onChange={(event) => setCharacterKeys(event.target.checked)} className="accent-accent" />{text.characterKeys}</label>
      </Card>
      <Notify />
      <Card title={strings.login.password} about={text.passwordHint}>
        <form className="flex flex-wrap items-end gap-2" onSubmit={(event) => {
          event.preventDefault();
          const form = event.currentTarget;
          const values = new FormData(form);
          const current = String(values.get("current") ?? "");
          password.mutate(() => post("/me/password", { password: values.get("new"), ...(current ? { current } : {}) }, "PUT").then(() => form.reset()));
        }}>
          <label className="text-12 text-t2">{text.currentPassword}<Field name="current" type="password" autoComplete="current-password" className="mt-1 block" /></label>
          <label className="text-12 text-t2">{text.newPassword}<Field name="new" type="password" autoComplete="new-password" minLength={10} required className="mt-1 block" /></label>
          <Button type="submit">{text.setPassword}</Button>
        </form>
        {password.isError && <div className="mt-2"><ProblemLine error={password.error} /></div>}
        {password.isSuccess && <p role="status" className="mt-2 text-ok">{text.passwordSet}</p>}
      </Card>
      <Card title={text.browsers}>
        <Table head={[text.browser, text.address, text.used, ""]} empty={text.none} rows={(browsers.data ?? []).map((each) => [<span key="agent" className="block max-w-64 truncate" title={each.agent}><SafeText text={each.agent} /></span>, each.address, ago(each.used_ms, now), each.current ? <Badge key="current" tone="ok">{text.thisBrowser}</Badge> : <Button key="end" small kind="quiet" onClick={() => act.mutate(() => send(`/me/browsers/${each.id}`, { method: "DELETE" }))}>{text.logOut}</Button>])} />
      </Card>
    </>
  );
}

function Notify() {
  const state = useNotifying();
  return (
    <Card title={strings.notify.section} about={strings.notify.about}>
      {state === "missing" || state === "refused" ? <p className="text-t2">{strings.notify[notifying() === "missing" ? "missing" : "refused"]}</p>
        : <label className="flex items-center gap-2"><input type="checkbox" checked={state === "on"} onChange={(event) => void setNotifying(event.target.checked)} className="accent-accent" />{strings.notify.ask}</label>}
    </Card>
  );
}

export function Approvals() {
  const approvals = useQuery({ queryKey: ["approvals"], queryFn: async () => (await get<Schemas["ApprovalPage"]>("/me/approvals")).items });
  const act = useDo(["approvals"]);
  return (
    <>
      <p className="text-t2">{text.approvalsAbout}</p>
      {act.isError && <ProblemLine error={act.error} />}
      <Table head={[text.tool, text.covers, ""]} empty={text.noApprovals} rows={(approvals.data ?? []).map((each) => [each.tool, <code key="pattern"><SafeText text={each.pattern || "*"} /></code>, <Button key="withdraw" small onClick={() => act.mutate(() => send(`/me/approvals?tool=${encodeURIComponent(each.tool)}&pattern=${encodeURIComponent(each.pattern)}`, { method: "DELETE" }))}>{text.withdraw}</Button>])} />
    </>
  );
}

export function Models() {
  const models = useModels();
  const keys = useQuery({ queryKey: ["model-keys"], queryFn: () => get<Schemas["ModelKeys"]>("/users/me/model-keys") });
  const act = useDo(["model-keys"]);
  if (models.isError) return <ProblemLine error={models.error} />;
  return (
    <>
      {models.data && <p className="text-t2">{text.defaultModel} <code>{models.data.default.replace(/^scripted:.*\//, "scripted:")}</code> · <WithCode text={models.data.reason} /></p>}
      <Table head={[text.provider, text.usable, text.why]} empty={text.none} rows={(models.data?.providers ?? []).map((each) => [each.name, each.usable ? <Badge key="usable" tone="ok">{text.yes}</Badge> : <Badge key="usable">{text.no}</Badge>, <span key="why" className="text-t2 [overflow-wrap:anywhere]"><WithCode text={each.reason} /></span>])} />
      <Card title={text.ownKeys} about={text.ownKeysAbout}>
        <div className="mb-3 flex flex-wrap gap-2">
          {keys.data?.providers.length === 0 && <p className="text-t2">{text.noKeys}</p>}
          {keys.data?.providers.map((each) => <span key={each} className="flex items-center gap-1"><Badge tone="ok">{each}</Badge><Button small kind="quiet" onClick={() => act.mutate(() => send(`/users/me/model-keys/${each}`, { method: "DELETE" }))}>{text.removeKey}</Button></span>)}
        </div>
        <form className="flex flex-wrap items-end gap-2" onSubmit={(event) => {
          event.preventDefault();
          const form = event.currentTarget;
          const values = new FormData(form);
          act.mutate(() => send(`/users/me/model-keys/${String(values.get("provider"))}`, { method: "PUT", body: { key: values.get("key") } }).then(() => form.reset()));
        }}>
          <label className="text-12 text-t2">{text.provider}<select name="provider" className="mt-1 block h-7 pointer-coarse:h-11 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1">{models.data?.providers.filter((each) => each.name !== "scripted").map((each) => <option key={each.name}>{each.name}</option>)}</select></label>
          <label className="text-12 text-t2">{text.key}<Field name="key" type="password" autoComplete="off" required className="mt-1 block w-72" /></label>
          <Button type="submit">{text.setKey}</Button>
        </form>
        {act.isError && <div className="mt-2"><ProblemLine error={act.error} /></div>}
        {act.isSuccess && <p role="status" className="mt-2 text-ok">{text.keySet}</p>}
      </Card>
    </>
  );
}

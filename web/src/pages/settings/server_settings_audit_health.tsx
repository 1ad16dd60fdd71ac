// The installation: its settings, environments, audit log and health.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, get, send } from "../../api/http_client";
import { useUsers } from "../../api/queries";
import { ago, bytes, repositoryName, seconds } from "../../display_format";
import { Button, Field } from "../../shared/form_controls";
import { useNow } from "../../shared/current_time";
import { ProblemLine } from "../../shared/error_message";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { Table, useDo } from "./shared_settings_parts";

const text = strings.settings;

export function ServerSettings() {
  const [filter, setFilter] = useState("");
  const settings = useQuery({ queryKey: ["settings"], queryFn: () => get<Schemas["Settings"]>("/settings") });
  if (settings.isError) return <ProblemLine error={settings.error} />;
  const rows = Object.entries(settings.data?.settings ?? {}).filter(([name]) => name.includes(filter.trim()));
  return (
    <>
      <p className="text-t2">{text.serverAbout}</p>
      <Field type="search" value={filter} onChange={(event) => setFilter(event.target.value)} placeholder={text.filter} aria-label={text.filter} className="w-72" />
      <Table head={[text.name, text.value, text.origin]} empty={text.none} rows={rows.map(([name, each]) => [<code key="name" className="max-sm:[overflow-wrap:anywhere]">{name}</code>, <code key="value" className="break-all"><SafeText text={JSON.stringify(each.value)} /></code>, <span key="origin" className="text-t3">{each.origin}</span>])} />
    </>
  );
}

export function Environments() {
  const now = useNow();
  const layers = useQuery({ queryKey: ["environments"], queryFn: async () => (await get<Schemas["LayerPage"]>("/environments")).items });
  const act = useDo(["environments"]);
  return (
    <>
      <p className="text-t2">{text.environmentsAbout}</p>
      {(layers.isError || act.isError) && <ProblemLine error={layers.error ?? act.error} />}
      <Table head={[text.repository, text.steps, text.size, text.used, ""]} empty={text.noEnvironments} rows={(layers.data ?? []).map((each) => [<span key="repository" title={each.repository}><SafeText text={repositoryName(each.repository)} /></span>, <code key="steps"><SafeText text={each.steps.join(" && ")} /></code>, <span key="size" className="whitespace-nowrap">{bytes(each.bytes)} · {seconds(each.duration_s)}</span>, ago(each.used_ms, now), <Button key="remove" small disabled={each.workspaces.length > 0} title={each.workspaces.length > 0 ? text.inUse : ""} onClick={() => act.mutate(() => send(`/environments/${each.key}`, { method: "DELETE" }))}>{text.remove}</Button>])} />
    </>
  );
}

export function AuditLog() {
  const now = useNow();
  const audit = useQuery({ queryKey: ["audit"], queryFn: async () => (await get<Schemas["AuditPage"]>("/audit?limit=100")).items });
  const users = useUsers(true);
  const names = new Map(users.data?.map((each) => [each.id, each.name]));
  return <Table head={[text.when, text.name, text.action, text.about, text.address]} empty={text.none} rows={(audit.data ?? []).map((each) => [ago(each.at_ms, now), names.get(each.user_id) ?? "", <span key="action" className={each.ok ? "" : "text-bad"}>{each.action}</span>, <span key="object" className="block min-w-40 [overflow-wrap:anywhere]"><SafeText text={`${each.object} ${each.detail}`.replace(/usr_\w+/g, (id) => names.get(id) ?? id)} /></span>, each.address])} />;
}

export function Health() {
  const now = useNow();
  const status = useQuery({ queryKey: ["status"], queryFn: () => get<Schemas["Status"]>("/status"), refetchInterval: 5000 });
  if (status.isError) return <ProblemLine error={status.error} />;
  const data = status.data;
  if (!data) return null;
  const problems = Object.entries(data.problems);
  const facts: [string, string][] = [[text.version, data.version], [text.up, ago(data.started_ms, now)], [text.jails, String(data.jails)], [text.followers, String(data.followers)], [text.memory, bytes(data.memory_bytes)], [text.database, bytes(data.database_bytes)], [strings.home.title, Object.entries(data.sessions).map(([state, count]) => `${count} ${state}`).join(", ")]];
  return (
    <>
      {problems.length === 0 ? <p className="text-ok">{text.healthy}</p> : problems.map(([name, problem]) => <p key={name} role="alert" className="rounded-row bg-bad-tint p-2 text-bad"><b>{name}</b> <SafeText text={problem} /></p>)}
      <Table head={[text.name, text.value]} empty="" rows={facts.map(([name, value]) => [name, value])} />
    </>
  );
}

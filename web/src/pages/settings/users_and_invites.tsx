// People and invitations.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, get, post, send } from "../../api/http_client";
import { useUsers } from "../../api/queries";
import { ago } from "../../display_format";
import { Badge, Button } from "../../shared/form_controls";
import { useNow } from "../../shared/current_time";
import { ProblemLine } from "../../shared/error_message";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { CHOICE, Card, Table, useDo } from "./shared_settings_parts";

const text = strings.settings;
const ROLES = ["owner", "member", "observer", "assessor", "candidate"];

export function UserList({ me }: { me: Schemas["User"] }) {
  const now = useNow();
  const queries = useQueryClient();
  const users = useUsers(true);
  const invites = useQuery({ queryKey: ["invites"], queryFn: async () => (await get<Schemas["InvitePage"]>("/invites?limit=100")).items });
  const act = useDo(["invites"]);
  const [link, setLink] = useState("");
  const change = (id: string, part: Record<string, unknown>) => act.mutate(() => post(`/users/${id}`, part, "PATCH").then(() => queries.invalidateQueries({ queryKey: ["users"] })));
  return (
    <>
      {act.isError && <ProblemLine error={act.error} />}
      <Table head={[text.name, text.role_, text.since, ""]} empty={text.none} rows={(users.data ?? []).map((each) => [
        <span key="name" className="flex items-center gap-2"><SafeText text={each.name} />{each.id === me.id && <Badge tone="info">{strings.session.you}</Badge>}{each.disabled && <Badge tone="warn">{text.disabled}</Badge>}</span>,
        each.id === me.id ? each.role : <select key="role" aria-label={text.roleOf(each.name)} value={each.role} onChange={(event) => change(each.id, { role: event.target.value })} className="h-6 rounded-row border border-edge bg-panel px-1 text-12">{ROLES.map((role) => <option key={role}>{role}</option>)}</select>,
        <time key="since" className="text-t3">{ago(each.created_ms, now)}</time>,
        each.id === me.id ? "" : <span key="actions" className="flex gap-1"><Button small kind="quiet" onClick={() => act.mutate(() => post<Schemas["Link"]>(`/users/${each.id}/link`).then((made) => setLink(made.url)))}>{text.loginLink}</Button><Button small kind={each.disabled ? "plain" : "danger"} onClick={() => change(each.id, { disabled: !each.disabled })}>{each.disabled ? text.enable : text.disable}</Button></span>,
      ])} />
      <Card title={text.invites} about={text.invitesAbout}>
        <form className="flex items-end gap-2" onSubmit={(event) => {
          event.preventDefault();
          const role = String(new FormData(event.currentTarget).get("role"));
          act.mutate(() => post<Schemas["Link"]>("/invites", { role }).then((made) => setLink(made.url)));
        }}>
          <label className="text-12 text-t2">{text.role_}<select name="role" className={CHOICE}>{ROLES.slice(1).map((each) => <option key={each}>{each}</option>)}</select></label>
          <Button type="submit" kind="primary">{text.invite}</Button>
        </form>
        {link && <p role="status" className="mt-3 rounded-row bg-ok-tint p-2 text-ok">{text.inviteOnce} <code className="break-all select-all">{link}</code></p>}
        <div className="mt-3"><Table head={[text.role_, text.expires, ""]} empty={text.noInvites} rows={(invites.data ?? []).map((each) => [each.role ?? each.share_role ?? "", <time key="expires">{new Date(each.expires_ms).toLocaleDateString("en-GB")}</time>, <Button key="withdraw" small onClick={() => act.mutate(() => send(`/invites/${each.id}`, { method: "DELETE" }))}>{text.withdraw}</Button>])} /></div>
      </Card>
    </>
  );
}

// A link that gives one person a role in the interview. It is shown once.
import { useState } from "react";
import { post } from "../../api/http_client";
import { copyText } from "../../clipboard";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { Button, Field } from "../../shared/form_controls";
import { text as all } from "../../strings/interviews";

const text = all.invite;

export function InvitationDialog({ id, role: first = "candidate", onClose }: { id: string; role?: string; onClose: () => void }) {
  const [role, setRole] = useState(first in text.roles ? first : "candidate");
  const [days, setDays] = useState("14");
  const [link, setLink] = useState("");
  const [isCopied, setCopied] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const make = async () => {
    setError(null);
    setCopied(false);
    try {
      setLink((await post<{ url: string }>(`/interviews/${id}/invitations`, { role, days: Number(days) || 14 })).url);
    } catch (failed) {
      setError(failed);
    }
  };
  return (
    <Dialog title={text.title} onClose={onClose}>
      <div className="flex flex-wrap items-end gap-3">
        <label className="text-12 text-t2">{text.as}
          <select value={role} onChange={(event) => { setRole(event.target.value); setLink(""); }} className="mt-1 block h-7 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1">
            {Object.entries(text.roles).map(([name, label]) => <option key={name} value={name}>{label}</option>)}
          </select>
        </label>
        <label className="text-12 text-t2">{text.days}<Field type="number" min={1} max={90} value={days} onChange={(event) => setDays(event.target.value)} className="mt-1 block w-20" /></label>
        <Button kind={link ? "plain" : "primary"} onClick={() => void make()}>{text.make}</Button>
      </div>
      <p className="mt-2 text-t2">{text.about[role]}</p>
      {error !== null && <div className="mt-3"><ProblemLine error={error} /></div>}
      {link && (
        <div className="mt-3 rounded-card border bg-info-tint p-2">
          <p className="text-12 text-t2">{text.once}</p>
          <div className="mt-1 flex gap-2">
            <Field readOnly value={link} aria-label={text.link} onFocus={(event) => event.target.select()} className="grow font-mono text-12" />
            <Button icon="copy" onClick={() => void copyText(link).then(setCopied)}><span role="status">{isCopied ? all.copied : all.copy}</span></Button>
          </div>
        </div>
      )}
      <div className="mt-4 flex justify-end"><Button kind="quiet" onClick={onClose}>{all.close}</Button></div>
    </Dialog>
  );
}

// Dialogs before a file or directory is created, moved or deleted.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, get, inAddress, post, send } from "../../../api/http_client";
import { Button, Field } from "../../../shared/form_controls";
import { Dialog } from "../../../shared/dialog";
import { ProblemLine } from "../../../shared/error_message";
import { strings } from "../../../strings";
import { useSessionContext } from "../session_context";

export type FileAction = { kind: "file" | "folder" | "rename" | "remove"; path: string; isDirectory?: boolean };
const MAX_COUNTED = 1000;

export function FileDialog({ action, onClose, onDone }: { action: FileAction; onClose: () => void; onDone: () => void }) {
  const { id, openFile } = useSessionContext();
  const [path, setPath] = useState(action.path);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const titles = { file: strings.panel.newFile, folder: strings.panel.newFolder, rename: strings.panel.rename, remove: strings.panel.removeTitle(action.path) };
  async function act() {
    setBusy(true);
    setError(null);
    try {
      if (action.kind === "file") await send(`/sessions/${id}/files/${inAddress(path)}`, { method: "PUT", raw: "", headers: { "If-None-Match": "*" } });
      else if (action.kind === "folder") await post(`/sessions/${id}/directories`, { path });
      else if (action.kind === "rename") await post(`/sessions/${id}/move`, { path: action.path, to: path });
      else await send(`/sessions/${id}/files/${inAddress(action.path)}`, { method: "DELETE" });
      onDone();
      onClose();
      if (action.kind === "file") openFile(path);
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  }
  const label = { file: strings.panel.create, folder: strings.panel.create, rename: strings.panel.move, remove: strings.panel.remove }[action.kind];
  return (
    <Dialog title={titles[action.kind]} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void act(); }}>
        {action.kind === "remove" ? <Removed action={action} /> : (
          <label className="block text-12 text-t2">{strings.panel.pathOf}<Field autoFocus required value={path} onChange={(event) => setPath(event.target.value)} className="mt-1 w-full font-mono text-12" /></label>
        )}
        {error !== null && <div className="mt-3"><ProblemLine error={error} /></div>}
        <div className="mt-4 flex justify-end gap-2">
          <Button kind="quiet" onClick={onClose}>{strings.session.cancel}</Button>
          <Button type="submit" disabled={isBusy} kind={action.kind === "remove" ? "danger" : "primary"}>{label}</Button>
        </div>
      </form>
    </Dialog>
  );
}

function Removed({ action }: { action: FileAction }) {
  const { id } = useSessionContext();
  const inside = useQuery({
    queryKey: ["inside", id, action.path],
    enabled: action.isDirectory ?? false,
    queryFn: () => get<Schemas["Paths"]>(`/sessions/${id}/glob?limit=${MAX_COUNTED}&pattern=${encodeURIComponent(`${action.path.replace(/[[\]*?{}\\!]/g, "[$&]")}/**/*`)}`),
  });
  const count = inside.data?.paths.length;
  return <p className="text-t2">{count !== undefined && `${strings.panel.inside(count, count >= MAX_COUNTED)} `}{strings.panel.removeDetail}</p>;
}

// Uploads into the workspace, one after the other, with refused files. No file is replaced without consent.
import { useRef, useState } from "react";
import { Problem, inAddress, send } from "../../../api/http_client";
import { Button } from "../../../shared/form_controls";
import { ProblemLine } from "../../../shared/error_message";
import { SafeText } from "../../../shared/safe_text";
import { strings } from "../../../strings";

type Upload = { path: string; file: File };
type Refused = Upload & { error: unknown };
export type Uploads = { add: (files: File[], directory: string) => void; left: Upload[]; refused: Refused[]; replace: (upload: Refused) => void; dismiss: (upload: Refused) => void; cancel: () => void };

export function useUploads(session: string, renew: () => void): Uploads {
  const [left, setLeft] = useState<Upload[]>([]);
  const [refused, setRefused] = useState<Refused[]>([]);
  const queue = useRef<(Upload & { replaces: boolean })[]>([]);
  const busy = useRef<AbortController | null>(null);
  async function work() {
    if (busy.current) return;
    busy.current = new AbortController();
    for (let next = queue.current[0]; next; next = queue.current[0]) {
      const { path, file, replaces } = next;
      try {
        const headers: Record<string, string> = replaces ? {} : { "If-None-Match": "*" };
        await send(`/sessions/${session}/files/${inAddress(path)}`, { method: "PUT", raw: file, headers, signal: busy.current.signal });
      } catch (error) {
        if (error instanceof DOMException) break; // cancelled
        setRefused((before) => [...before, { path, file, error }]);
      }
      queue.current = queue.current.slice(1);
      setLeft(queue.current);
      renew();
    }
    busy.current = null;
  }
  const start = (uploads: Upload[], replaces: boolean) => {
    queue.current = [...queue.current, ...uploads.map((each) => ({ ...each, replaces }))];
    setLeft(queue.current);
    void work();
  };
  const dismiss = (upload: Refused) => setRefused((before) => before.filter((each) => each !== upload));
  return {
    left, refused, dismiss,
    add: (files, directory) => start(files.map((file) => ({ path: directory ? `${directory}/${file.name}` : file.name, file })), false),
    replace: (upload) => {
      dismiss(upload);
      start([upload], true);
    },
    cancel: () => {
      queue.current = [];
      setLeft([]);
      busy.current?.abort();
    },
  };
}

export function UploadList({ uploads }: { uploads: Uploads }) {
  const first = uploads.left[0];
  return (
    <>
      {first && (
        <div role="status" className="flex items-center gap-1 border-b bg-info-tint px-2 py-1 text-12 text-info">
          <span className="min-w-0 grow truncate"><SafeText text={strings.panel.uploading(first.path, uploads.left.length - 1)} /></span>
          <Button kind="quiet" small onClick={uploads.cancel}>{strings.session.cancel}</Button>
        </div>
      )}
      {uploads.refused.map((each) => (
        <div key={each.path} className="p-1">
          <ProblemLine error={each.error}>
            {isThere(each.error) && <Button kind="quiet" small onClick={() => uploads.replace(each)}>{strings.panel.replaceFile}</Button>}
            <Button kind="quiet" small onClick={() => uploads.dismiss(each)}>{strings.session.close}</Button>
          </ProblemLine>
        </div>
      ))}
    </>
  );
}

const isThere = (error: unknown) => error instanceof Problem && (error.status === 412 || error.status === 409);

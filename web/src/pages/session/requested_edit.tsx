// The change that a call asks for, as a diff of the file as it is now. Where the edit has no known place, its own texts are compared.
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { inAddress, send } from "../../api/http_client";
import type { Tool } from "../../fold/view_types";
import { Added } from "../../shared/form_controls";
import type { FileDiff } from "../../shared/patch_parser";
import { DiffLines } from "../../shared/diff_lines";
import { diffTexts } from "../../shared/line_diff";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { argumentsOf } from "./conversation_items";
import { type AgentEdit, editOf, editsOf, textAfter } from "./panels/streamed_edit_parser";

const MAX_FILE_CHARS = 2_000_000;

export const isEdit = (row: Tool) => row.tool === "write_file" || row.tool === "edit_file" || row.tool === "apply_patch";

/** The file is that of the session whose agent asks. `whole` is the call as it was written: a preview could leave something out. */
export function RequestedEdit({ row, session, whole }: { row: Tool; session: string; whole: ReactNode }) {
  if (row.tool === "apply_patch") return <Patch text={String(argumentsOf(row)["patch"] ?? "")} />;
  const edit = editOf(row);
  return edit ? <OneFile session={session} edit={edit} seq={row.seq} whole={whole} /> : <>{whole}</>;
}

function OneFile({ session, edit, seq, whole }: { session: string; edit: AgentEdit; seq: number; whole: ReactNode }) {
  const before = useQuery({ queryKey: ["requested-edit", session, edit.path, seq], queryFn: () => textOf(session, edit.path), staleTime: 0 });
  if (before.isError) return <>{whole}</>;
  if (before.isPending) return <p className="meta"><SafeText oneLine text={edit.path} /></p>;
  const after = before.data === undefined ? null : textAfter(edit, before.data ?? "");
  const files = after === null ? editsOf(edit).map((each) => diffTexts(edit.path, each.old, each.new)) : [diffTexts(edit.path, before.data ?? "", after)];
  return (
    <>
      <div className="min-h-7 shrink overflow-auto rounded-row border" data-requested-edit>
        <Head files={files} isNew={before.data === null} />
        {after === null && <p className="meta px-2 py-1">{strings.approval.noPlace}</p>}
        {files.map((file, index) => <DiffLines key={index} file={file} />)}
      </div>
      <details className="min-h-5 shrink overflow-auto"><summary className="meta cursor-pointer">{strings.approval.wholeCall}</summary>{whole}</details>
    </>
  );
}

function Head({ files, isNew }: { files: FileDiff[]; isNew: boolean }) {
  return (
    <div className="sticky top-0 left-0 z-10 flex h-6 items-center gap-2 border-b bg-code px-2">
      <code className="min-w-0 grow truncate"><SafeText oneLine text={files[0]?.path ?? ""} /></code>
      {isNew && <span className="text-11 text-t3">{strings.approval.newFile}</span>}
      <Added added={files.reduce((sum, file) => sum + file.added, 0)} deleted={files.reduce((sum, file) => sum + file.deleted, 0)} />
    </div>
  );
}

const TINTS: Record<string, string> = { "+": "bg-add", "-": "bg-del", "*": "font-semibold", "@": "text-t3" };

/** A patch, as it was written, with its lines tinted: a parser could leave out what the server applies. */
function Patch({ text }: { text: string }) {
  return (
    <div className="min-h-7 shrink overflow-auto rounded-row border" data-requested-edit>
      <pre tabIndex={0} className="min-w-max leading-5">{text.split("\n").map((line, index) => <div key={index} className={`px-2 ${TINTS[line[0] ?? ""] ?? ""}`}><SafeText text={line || " "} /></div>)}</pre>
    </div>
  );
}

/** The text of a file; null if there is none. */
async function textOf(session: string, path: string): Promise<string | null> {
  const answer = await send(`/sessions/${session}/files/${inAddress(path)}?optional=true`);
  if (answer.status === 204) return null;
  const text = await answer.text();
  if (text.length > MAX_FILE_CHARS) throw new Error(strings.panel.noDiffOfLarge);
  return text;
}

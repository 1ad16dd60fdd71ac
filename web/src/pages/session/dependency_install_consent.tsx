// The dependencies of a repository, before their set-up is accepted: a line that says so, and a dialog that shows
// the commands, in a summary first.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, get, post } from "../../api/http_client";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { usePageCommands } from "../../shared/page_commands";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/dependencies";
import { useSessionContext } from "./session_context";

const POLL_MS = 1000;
type Setup = Schemas["Environment"];

export function DependencyStrip() {
  const { id, session, canWrite } = useSessionContext();
  const key = `hutch.dependencies.${session?.repository ?? ""}`;
  const [isDismissed, setDismissed] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const setup = useQuery({ queryKey: ["environment", id], enabled: canWrite && Boolean(session?.repository) && session?.state !== "ended", queryFn: () => get<Setup>(`/sessions/${id}/environment`), staleTime: Infinity, retry: false });
  const waits = setup.data !== undefined && setup.data.steps.length > 0 && !setup.data.accepted && setup.data.built === null;
  usePageCommands(waits ? [{ label: text.title, icon: "download", run: () => setOpen(true) }] : []);
  if (!setup.data || (!waits && !isOpen)) return null;
  const dismiss = () => {
    sessionStorage.setItem(key, setup.data.layer);
    setDismissed(true);
  };
  const isHidden = isDismissed || sessionStorage.getItem(key) === setup.data.layer;
  return (
    <>
      {waits && !isHidden && (
        <div role="note" className="mx-3 mb-2 flex flex-wrap items-center gap-x-2 gap-y-1 rounded-row bg-warn-tint px-2 py-1 text-12 text-warn">
          <Icon name="download" size={14} />
          <span className="min-w-0 grow">{text.strip}</span>
          <Button kind="quiet" small onClick={() => setOpen(true)}>{text.review}</Button>
          <Button kind="quiet" small onClick={dismiss}>{text.later}</Button>
        </div>
      )}
      {isOpen && <SetupDialog setup={setup.data} onClose={() => setOpen(false)} />}
    </>
  );
}

function SetupDialog({ setup, onClose }: { setup: Setup; onClose: () => void }) {
  const { id } = useSessionContext();
  const queries = useQueryClient();
  const [state, setState] = useState<"" | "installing" | "installed">("");
  const [error, setError] = useState<unknown>(null);
  const [failure, setFailure] = useState<Setup["failure"]>(null);
  const log = useQuery({ queryKey: ["environment-log", id], enabled: state === "installing", refetchInterval: POLL_MS, retry: false, queryFn: async () => (await get<Schemas["BuildLog"]>(`/sessions/${id}/environment/log`)).lines });
  async function install() {
    setState("installing");
    setError(null);
    setFailure(null);
    try {
      const built = await post<Setup>(`/sessions/${id}/environment`, { layer: setup.layer });
      setFailure(built.failure);
      setState(built.failure ? "" : "installed");
      queries.setQueryData(["environment", id], built);
    } catch (failed) {
      setError(failed);
      setState("");
    }
  }
  const sources = [...new Set(setup.steps.map((each) => each.source))];
  return (
    <Dialog title={text.title} onClose={onClose}>
      <p><SafeText text={text.summary(setup.steps.length, sources)} /></p>
      <p className="mt-1 text-t2">{text.forLater}</p>
      <ul className="mt-2 space-y-1 text-12">
        {setup.steps.map((each, index) => <li key={index} className="flex min-w-0 items-baseline gap-2"><code className="min-w-0 truncate"><SafeText text={firstLine(each.command)} /></code><span className="shrink-0 text-t3"><SafeText text={each.source} />{each.is_optional && ` · ${text.mayFail}`}</span></li>)}
      </ul>
      <details className="mt-2">
        <summary className="meta cursor-pointer">{text.show}</summary>
        <pre tabIndex={0} className="mt-1 max-h-60 overflow-auto rounded-row border bg-code px-2 py-1 leading-5 whitespace-pre-wrap [overflow-wrap:anywhere]"><SafeText text={setup.steps.map((each) => each.command.trim()).join("\n\n")} /></pre>
      </details>
      {setup.notes.map((note) => <p key={note} className="meta mt-2"><SafeText text={note} /></p>)}
      {state === "installing" && <p role="status" className="mt-3 truncate font-mono text-12 text-t2"><SafeText text={log.data?.at(-1) ?? text.installing} /></p>}
      {state === "installed" && <p role="status" className="mt-3 text-ok">{text.installed}</p>}
      {failure && <div role="alert" className="mt-3 text-bad"><p>{text.failed} <SafeText text={failure.reason} /></p><pre tabIndex={0} className="mt-1 max-h-40 overflow-auto text-12 whitespace-pre-wrap"><SafeText text={[...failure.denied, ...failure.output].join("\n")} /></pre></div>}
      {error !== null && <div className="mt-3"><ProblemLine error={error} /></div>}
      <div className="mt-4 flex justify-end gap-2">
        <Button kind="quiet" onClick={onClose}>{state === "installed" ? text.close : text.later}</Button>
        {state !== "installed" && <Button kind="primary" icon="download" disabled={state === "installing"} onClick={() => void install()}>{state === "installing" ? text.installing : text.install}</Button>}
      </div>
    </Dialog>
  );
}

function firstLine(command: string): string {
  const [first = "", ...more] = command.trim().split("\n");
  return more.length ? `${first} …` : first;
}

// Another persona or model for the session.
import { useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { post } from "../../api/http_client";
import { useModels, usePersonas } from "../../api/queries";
import { Button, Field } from "../../shared/form_controls";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { strings } from "../../strings";
import { useSessionContext, useView } from "./session_context";

export function OptionsDialog({ onClose }: { onClose: () => void }) {
  const { id, session } = useSessionContext();
  const view = useView();
  const queries = useQueryClient();
  const personas = usePersonas();
  const models = useModels();
  const [error, setError] = useState<unknown>(null);
  function submit(event: SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const [persona, model] = [String(form.get("persona") ?? ""), String(form.get("model") ?? "").trim()];
    post(`/sessions/${id}`, { ...(persona ? { persona } : {}), ...(model ? { model } : {}) }, "PATCH").then(() => {
      void queries.invalidateQueries({ queryKey: ["session", id] });
      onClose();
    }, setError);
  }
  const current = view.persona || session?.persona || "";
  const names = personas.data?.items.map((each) => each.name) ?? [];
  return (
    <Dialog title={strings.session.optionsTitle} onClose={onClose}>
      <form onSubmit={submit} className="space-y-3">
        <p className="text-t2">{strings.session.optionsDetail}</p>
        <label className="block text-12 text-t2">{strings.session.persona}
          <select key={names.length} name="persona" defaultValue={current} className="mt-1 block h-7 pointer-coarse:h-11 w-full rounded-row border border-edge bg-panel px-2 text-13 text-t1">
            {[...new Set([current, ...names])].filter(Boolean).map((name) => <option key={name} value={name}>{strings.create.personaOption(name, personas.data?.items.find((each) => each.name === name)?.description ?? "")}</option>)}
          </select>
        </label>
        <label className="block text-12 text-t2">{strings.session.model}
          <Field name="model" list="session-models" defaultValue={view.model || session?.model || ""} className="mt-1 w-full font-mono text-12" autoComplete="off" />
        </label>
        <datalist id="session-models">{models.data?.providers.flatMap((each) => (each.usable && each.default_model ? [<option key={each.name} value={each.default_model} />] : []))}</datalist>
        {error !== null && <ProblemLine error={error} />}
        <div className="flex justify-end gap-2">
          <Button kind="quiet" onClick={onClose}>{strings.session.cancel}</Button>
          <Button type="submit" kind="primary">{strings.session.apply}</Button>
        </div>
      </form>
    </Dialog>
  );
}

// Assigns a task to an agent: the persona, the reviewer, and whether the change may be merged without a person.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { post } from "../../api/http_client";
import { useModels, usePersonas } from "../../api/queries";
import { modelName } from "../../display_format";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { Button, Field } from "../../shared/form_controls";
import { strings } from "../../strings";
import { text } from "../../strings/tasks";
import type { Task } from "./task_values_filter_and_order";

const DEFAULT_PERSONA = "engineer";
const SELECT = "mt-1 h-7 w-full rounded-row border border-edge bg-panel px-1.5 text-13 text-t1 pointer-coarse:h-11";

export function AssignAgentDialog({ task, waitsFor, onClose }: { task: Task; waitsFor: string[]; onClose: () => void }) {
  const personas = usePersonas();
  const models = useModels();
  const queries = useQueryClient();
  const owner = task.fields.owner.startsWith("persona:") ? task.fields.owner.slice("persona:".length) : "";
  const [persona, setPersona] = useState(owner || DEFAULT_PERSONA);
  const [reviewer, setReviewer] = useState("");
  const [model, setModel] = useState("");
  const [merge, setMerge] = useState(false);
  const assign = useMutation({
    mutationFn: () => post(`/tasks/${task.id}/assignments`, { persona, reviewer, model, merge }),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["tasks"] });
      onClose();
    },
  });
  const names = [...new Set([persona, ...(personas.data?.items ?? []).map((each) => each.name)])];
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    assign.mutate();
  };
  const isEmpty = task.fields.criteria.length === 0;
  return (
    <Dialog title={text.agent.title(task.key)} onClose={onClose}>
      <form onSubmit={submit} className="space-y-3">
        <p className="text-t2">{task.repository ? text.agent.about : text.agent.aboutWithoutRepository}</p>
        {waitsFor.length > 0 && <p className="rounded-row bg-warn-tint px-2 py-1 text-warn">{text.agent.depends(waitsFor.join(", "))}</p>}
        {isEmpty && <p className="rounded-row bg-info-tint px-2 py-1 text-info">{text.agent.noCriteria}</p>}
        <div className="grid gap-3 sm:grid-cols-2">
          <label className="block text-12 text-t2">{text.agent.persona}
            <select autoFocus value={persona} onChange={(event) => setPersona(event.target.value)} className={SELECT}>
              {names.map((name) => <option key={name} value={name} title={personas.data?.items.find((each) => each.name === name)?.description}>{name}</option>)}
            </select>
          </label>
          <label className="block text-12 text-t2">{text.agent.reviewer}
            <select value={reviewer} onChange={(event) => setReviewer(event.target.value)} disabled={!task.repository} className={`${SELECT} disabled:opacity-50`}>
              <option value="">{text.agent.noReviewer}</option>
              {names.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </label>
        </div>
        <label className="block text-12 text-t2">{strings.create.model}
          <Field value={model} list="task-models" onChange={(event) => setModel(event.target.value)} placeholder={models.data ? modelName(models.data.default) : strings.create.standard} className="mt-1 w-full" />
          <datalist id="task-models">{models.data?.providers.filter((each) => each.usable && each.default_model).map((each) => <option key={each.name} value={each.default_model ?? ""} />)}</datalist>
        </label>
        {task.repository && (
          <div>
            <label className="flex items-center gap-2"><input type="checkbox" checked={merge} onChange={(event) => setMerge(event.target.checked)} aria-describedby="merge-rule" className="accent-accent" />{text.agent.merge}</label>
            <p id="merge-rule" className="mt-0.5 pl-6 text-12 text-t3">{text.agent.mergeRule}</p>
          </div>
        )}
        {assign.isError && <ProblemLine error={assign.error} />}
        <div className="flex justify-end gap-2">
          <Button kind="quiet" onClick={onClose}>{text.page.cancel}</Button>
          <Button type="submit" kind="primary" icon="play" disabled={assign.isPending}>{text.agent.assign}</Button>
        </div>
      </form>
    </Dialog>
  );
}

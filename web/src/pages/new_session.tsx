// A new session in two steps: the code, then the task. The typed text is stored until the session has started.
import { useQueryClient } from "@tanstack/react-query";
import { type KeyboardEvent, type SubmitEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { useLocation, useSearch } from "wouter";
import { type Schemas, type Session, asProblem, post } from "../api/http_client";
import { useModels, usePersonas } from "../api/queries";
import { BranchField } from "./branch_field";
import { repositoryName } from "../display_format";
import { Button, Field } from "../shared/form_controls";
import { Dialog } from "../shared/dialog";
import { Icon } from "../shared/icons";
import { ModelSettingsLink, ProblemLine } from "../shared/error_message";
import { sample } from "../sample_project";
import { strings } from "../strings";

type Draft = { source: "repository" | "sample" | "none"; repository: string; revision: string; prompt: string; persona: string; model: string; network: string; turns: string; cost: string; minutes: string; deliver: boolean };
const BLANK: Draft = { source: "repository", repository: "", revision: "", prompt: "", persona: "", model: "", network: "", turns: "", cost: "", minutes: "", deliver: false };
const KEY = "hutch.new-session";
const DEFAULT_PERSONA = "engineer";

function storedDraft(): Draft {
  try {
    return { ...BLANK, ...(JSON.parse(sessionStorage.getItem(KEY) ?? "{}") as Partial<Draft>) };
  } catch {
    return BLANK;
  }
}

export function NewSession({ recent, onClose }: { recent: Session[]; onClose: () => void }) {
  const wantsSample = new URLSearchParams(useSearch()).has("sample");
  const [draft, setDraft] = useState<Draft>(() => (wantsSample ? { ...BLANK, source: "sample", prompt: sample.prompt } : storedDraft()));
  const [step, setStep] = useState(wantsSample ? 2 : 1);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [, go] = useLocation();
  const queries = useQueryClient();
  const change = (part: Partial<Draft>) => setDraft((before) => ({ ...before, ...part }));
  useEffect(() => sessionStorage.setItem(KEY, JSON.stringify(draft)), [draft]);

  async function start() {
    setBusy(true);
    setError(null);
    try {
      const made = await post<Session>("/sessions", bodyOf(draft));
      sessionStorage.removeItem(KEY);
      void queries.invalidateQueries({ queryKey: ["sessions"] });
      go(`/s/${made.id}`);
    } catch (failed) {
      setError(failed);
      if (asProblem(failed).message.includes("repository")) setStep(1);
      setBusy(false);
    }
  }

  /** A wrong repository or revision is refused here, not after the task was written. */
  async function toTask() {
    setError(null);
    if (draft.source !== "repository") return setStep(2);
    setBusy(true);
    try {
      await post("/check-session", { repository: draft.repository.trim(), revision: draft.revision.trim() });
      setStep(2);
    } catch (failed) {
      setError(failed);
    } finally {
      setBusy(false);
    }
  }

  function submit(event: SubmitEvent) {
    event.preventDefault();
    if (step === 1) void toTask();
    else void start();
  }

  function onKey(event: KeyboardEvent<HTMLFormElement>) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || busy) return;
    event.preventDefault();
    event.currentTarget.requestSubmit(); // which checks the fields first
  }

  return (
    <Dialog title={strings.create.title} aside={`${strings.create.step(step)} · ${step === 1 ? strings.create.code : strings.create.ask}`} onClose={onClose}>
      <form onSubmit={submit} onKeyDown={onKey}>
        {step === 1 ? <Code draft={draft} change={change} recent={recent} /> : <Task draft={draft} change={change} />}
        {error !== null && <div className="mt-3"><ProblemLine error={error} /></div>}
        <div className="mt-4 flex items-center justify-end gap-2">
          {step === 2 && !draft.prompt.trim() && <span className="meta grow">{strings.create.empty}</span>}
          {step === 2 && <Button kind="quiet" onClick={() => setStep(1)}>{strings.create.back}</Button>}
          <Button type="submit" kind="primary" disabled={busy} {...(step === 2 ? { keys: "Ctrl ↵" } : {})}>{step === 1 ? (busy ? strings.create.checking : strings.create.next) : busy ? strings.create.starting : strings.create.start}</Button>
        </div>
      </form>
    </Dialog>
  );
}

function bodyOf(draft: Draft): Record<string, unknown> {
  const prompt = draft.prompt.trim();
  const number = (text: string, factor = 1) => (text.trim() ? Number(text) * factor : null);
  const base: Record<string, unknown> = {
    purpose: prompt.split("\n")[0]?.slice(0, 120) ?? "",
    prompt,
    persona: draft.persona,
    model: draft.model,
    network: draft.network.split(/[\s,]+/).filter(Boolean),
    limits: { turns: number(draft.turns), cost_usd: number(draft.cost), timeout_s: number(draft.minutes, 60) },
  };
  if (draft.source === "sample") return { ...base, files: sample.files, model: draft.model || sample.model };
  if (draft.source === "none") return base;
  return { ...base, repository: draft.repository.trim(), revision: draft.revision.trim(), deliver: draft.deliver };
}

type StepProps = { draft: Draft; change: (part: Partial<Draft>) => void };

function Code({ draft, change, recent }: StepProps & { recent: Session[] }) {
  const known = [...new Set(recent.map((each) => each.repository).filter(Boolean))].slice(0, 6);
  return (
    <fieldset className="space-y-2">
      <legend className="sr-only">{strings.create.code}</legend>
      <Option checked={draft.source === "repository"} pick={() => change({ source: "repository" })} title={strings.create.repository}>
        <Field autoFocus value={draft.repository} onFocus={() => change({ source: "repository" })} onChange={(event) => change({ repository: event.target.value, source: "repository" })} placeholder={strings.create.repositoryHint} aria-label={strings.create.repository} required={draft.source === "repository"} className="w-full font-mono text-12" list="recent-repositories" />
        <datalist id="recent-repositories">{known.map((each) => <option key={each} value={each} />)}</datalist>
        {known.length > 0 && (
          <div className="mt-2 flex flex-wrap items-center gap-1">
            <span className="meta">{strings.create.recent}</span>
            {known.map((each) => (
              <button type="button" key={each} title={each} onClick={() => change({ repository: each, source: "repository" })} className="fade h-6 rounded-row border px-2 text-12 text-t2 hover:bg-hover">{repositoryName(each)}</button>
            ))}
          </div>
        )}
        <BranchField repository={draft.repository.trim()} value={draft.revision} onChange={(revision) => change({ revision, source: "repository" })} />
      </Option>
      <Option checked={draft.source === "sample"} pick={() => change({ source: "sample", prompt: draft.prompt || sample.prompt })} title={strings.create.sample}>
        <p className="meta">{strings.create.sampleDetail}</p>
      </Option>
      <Option checked={draft.source === "none"} pick={() => change({ source: "none" })} title={strings.create.none} />
    </fieldset>
  );
}

function Option({ checked, pick, title, children }: { checked: boolean; pick: () => void; title: string; children?: ReactNode }) {
  return (
    <div className={`rounded-card border p-3 ${checked ? "border-accent" : ""}`}>
      <label className="flex items-center gap-2">
        <input type="radio" name="source" checked={checked} onChange={pick} className="accent-accent" />
        <span className="font-semibold">{title}</span>
      </label>
      {children && <div className="mt-2 pl-5">{children}</div>}
    </div>
  );
}

function Task({ draft, change }: StepProps) {
  const personas = usePersonas();
  const models = useModels();
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.focus(), []);
  return (
    <div className="space-y-3">
      <label className="block">
        <span className="text-12 text-t2">{strings.create.prompt}</span>
        <textarea ref={area} value={draft.prompt} onChange={(event) => change({ prompt: event.target.value })} placeholder={strings.create.promptHint} rows={5} className="mt-1 w-full resize-y rounded-row border border-edge bg-panel p-2 text-14" />
      </label>
      <div className="grid grid-cols-2 gap-3">
        <label className="block text-12 text-t2">
          {strings.create.persona}
          <select value={draft.persona} onChange={(event) => change({ persona: event.target.value })} className="mt-1 h-7 pointer-coarse:h-11 w-full rounded-row border border-edge bg-panel px-1.5 text-13 text-t1">
            <option value="">{strings.create.standard}</option>
            {personas.data?.items.map((each) => <option key={each.name} value={each.name} title={each.description}>{strings.create.personaOption(each.name, each.description)}</option>)}
          </select>
          <span className="meta mt-1 block">{personas.data?.items.find((each) => each.name === (draft.persona || DEFAULT_PERSONA))?.description}</span>
        </label>
        <label className="block text-12 text-t2">
          {strings.create.model}
          <Field list="models" value={draft.model} onChange={(event) => change({ model: event.target.value })} placeholder={draft.source === "sample" ? sample.model : modelName(models.data?.default)} className="mt-1 w-full" />
          <datalist id="models">
            {models.data?.providers.filter((each) => each.usable && each.default_model).map((each) => <option key={each.name} value={each.default_model ?? ""} />)}
          </datalist>
        </label>
      </div>
      {models.data && draft.source !== "sample" && !draft.model && hasNoModel(models.data) && <p className="rounded-row bg-warn-tint px-2 py-1 text-warn">{strings.create.noModel} <ModelSettingsLink /></p>}
      {draft.source === "repository" && (
        <label className="flex items-center gap-2 text-t2">
          <input type="checkbox" checked={draft.deliver} onChange={(event) => change({ deliver: event.target.checked })} className="accent-accent" />
          {strings.create.deliver}
        </label>
      )}
      <details className="group">
        <summary className="flex list-none items-center gap-1 text-12 text-t2"><Icon name="chevron" size={12} className="group-open:rotate-90" />{strings.create.options}</summary>
        <div className="mt-2 grid grid-cols-3 gap-3 text-12 text-t2">
          <label className="col-span-3 block">{strings.create.network}<Field value={draft.network} onChange={(event) => change({ network: event.target.value })} className="mt-1 w-full font-mono text-12" /></label>
          <label>{strings.create.turns}<Field type="number" min={1} value={draft.turns} onChange={(event) => change({ turns: event.target.value })} className="mt-1 w-full" /></label>
          <label>{strings.create.cost}<Field type="number" min={0} step="any" value={draft.cost} onChange={(event) => change({ cost: event.target.value })} className="mt-1 w-full" /></label>
          <label>{strings.create.minutes}<Field type="number" min={1} value={draft.minutes} onChange={(event) => change({ minutes: event.target.value })} className="mt-1 w-full" /></label>
        </div>
      </details>
    </div>
  );
}

/** True if only a script stands in for a model. */
const hasNoModel = (models: Schemas["Models"]) => models.default.startsWith("scripted:") && !models.providers.some((each) => each.usable && each.name !== "scripted");

/** A script is a file of the server; its path says nothing to a reader. */
const modelName = (name: string | undefined) => (!name ? strings.create.standard : name.startsWith("scripted:") ? `scripted:${repositoryName(name)}` : name);

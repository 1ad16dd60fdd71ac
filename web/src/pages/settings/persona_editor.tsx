// A form for a persona of the installation: every field is explained, and wrong ones say why.
import { type SubmitEvent, type ReactNode, useState } from "react";
import { useQueryClient } from "@tanstack/react-query";
import { Problem, type Schemas, post } from "../../api/http_client";
import { Button, Field } from "../../shared/form_controls";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { strings } from "../../strings";
import { text } from "../../strings/persona_editor";
import { text as rules } from "../../strings/rules_and_policies";

type Whole = Schemas["WholePersona"];
const AREA = "mt-1 w-full resize-y rounded-row border border-edge bg-panel p-2 font-mono text-12 text-t1";
const LIMITS = ["turns", "tokens", "cost_usd", "timeout_s"] as const;

export function PersonaEditor({ persona, tools, onClose }: { persona: Whole | null; tools: string[]; onClose: () => void }) {
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const wrong = error instanceof Problem ? error.fields : [];
  const hasAll = persona === null || tools.every((each) => persona.tools.includes(each));
  function save(event: SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const value = (name: string) => String(form.get(name) ?? "").trim();
    const chosen = form.getAll("tools").map(String);
    const limits = Object.fromEntries(LIMITS.flatMap((each) => (value(each) ? [[each, Number(value(each))]] : [])));
    const body = { description: value("description"), prompt: value("prompt"), tools: value("tools-all") ? null : chosen, default: value("default"), rules: value("rules").split("\n").map((each) => each.trim()).filter(Boolean), model: value("model") || null, limits, generation: persona?.generation ?? {} };
    post<Whole>(`/personas/${encodeURIComponent(persona?.name ?? value("name"))}`, body, "PUT").then(async () => {
      await Promise.all([queries.invalidateQueries({ queryKey: ["personas"] }), queries.invalidateQueries({ queryKey: ["persona"] })]);
      onClose();
    }, setError);
  }
  const part = (at: string, label: string, about: string, children: ReactNode) => <Part at={at} label={label} about={about} wrong={wrong}>{children}</Part>;
  return (
    <Dialog title={text.title(persona?.name ?? "")} onClose={onClose} wide>
      <form className="space-y-3" onSubmit={save}>
        {persona === null && part("path.name", text.name, text.nameAbout, <Field name="name" required pattern="[a-z][a-z0-9_\-]{0,63}" autoComplete="off" className="mt-1 block w-60 font-mono" />)}
        {part("body.description", text.description, text.descriptionAbout, <Field name="description" maxLength={300} defaultValue={persona?.description ?? ""} className="mt-1 block w-full" />)}
        {part("body.prompt", text.prompt, text.promptAbout, <textarea name="prompt" required rows={8} defaultValue={persona?.prompt ?? ""} className={AREA} />)}
        <fieldset>
          <legend className="text-12 text-t2">{text.tools}</legend>
          <label className="mt-1 flex min-h-6 items-center gap-1 text-12"><input type="checkbox" name="tools-all" value="all" defaultChecked={hasAll} className="accent-accent" />{text.allTools}</label>
          <div className="mt-1 flex flex-wrap gap-x-3 gap-y-1 text-12">{tools.map((each) => <label key={each} className="flex min-h-6 items-center gap-1"><input type="checkbox" name="tools" value={each} defaultChecked={!hasAll && (persona?.tools.includes(each) ?? false)} className="accent-accent" />{each}</label>)}</div>
          <p className="meta mt-0.5">{text.toolsAbout}</p>
        </fieldset>
        {part("body.rules", text.rules, text.rulesAbout, <textarea name="rules" rows={3} spellCheck={false} placeholder={rules.rulesHint} defaultValue={persona?.rules.join("\n") ?? ""} className={AREA} />)}
        <label className="block text-12 text-t2">{text.default}<select name="default" defaultValue={persona?.default ?? "allow"} className="mt-1 block h-7 pointer-coarse:h-11 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1">{Object.entries(rules.otherwise).map(([value, said]) => <option key={value} value={value}>{said}</option>)}</select></label>
        {part("body.model", text.model, text.modelAbout, <Field name="model" defaultValue={persona?.model ?? ""} autoComplete="off" className="mt-1 block w-full font-mono" />)}
        <div>
          <div className="flex flex-wrap gap-3">{LIMITS.map((each) => <label key={each} className="text-12 text-t2">{text.limits[each]}<Field name={each} type="number" min={each === "cost_usd" ? "0.01" : "1"} step={each === "cost_usd" ? "0.01" : "1"} defaultValue={persona?.limits[each] ?? ""} className="mt-1 block w-28" /></label>)}</div>
          <p className="meta mt-0.5">{text.limitsAbout}</p>
        </div>
        {error !== null && <ProblemLine error={error} />}
        <div className="flex justify-end gap-2"><Button kind="quiet" onClick={onClose}>{strings.session.cancel}</Button><Button type="submit" kind="primary">{text.save}</Button></div>
      </form>
    </Dialog>
  );
}

function Part({ at, label, about, wrong, children }: { at: string; label: string; about: string; wrong: { at: string; message: string }[]; children: ReactNode }) {
  const problems = wrong.filter((each) => each.at === at || each.at.startsWith(`${at}.`));
  return (
    <div>
      <label className="block text-12 text-t2">{label}{children}</label>
      <p className="meta mt-0.5">{about}</p>
      {problems.map((each) => <p key={each.at} className="text-12 text-bad">{each.message}</p>)}
    </div>
  );
}

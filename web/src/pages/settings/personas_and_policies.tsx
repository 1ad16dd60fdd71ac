// Personas, and policies with an editor that says each rule in words.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, get, post, send } from "../../api/http_client";
import { usePersonas } from "../../api/queries";
import { Badge, Button, Field } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { text as own } from "../../strings/persona_editor";
import { text } from "../../strings/rules_and_policies";
import { PersonaEditor } from "./persona_editor";
import { CHOICE, Card, useDo } from "./shared_settings_parts";

const ROLES = ["owner", "member", "observer", "assessor", "candidate"];
const TONES = { allow: "ok", ask: "warn", deny: "bad" } as const;
type Action = keyof typeof TONES;

/** A rule in words, or null if it is none. */
export function inWords(rule: string): { action: Action; words: string } | null {
  const found = /^(allow|ask|deny)\s+(\S+)(?:\s+(.+))?$/.exec(rule.trim());
  if (!found) return null;
  const action = found[1] as Action;
  const tool = found[2] === "*" ? text.everything : found[2];
  return { action, words: `${text.action[action]} ${tool}${found[3] ? ` ${found[3]}` : ""}` };
}

function RuleLines({ rules }: { rules: string[] }) {
  return (
    <ul className="space-y-0.5">
      {rules.map((rule, index) => {
        const sentence = inWords(rule);
        return <li key={index} className="flex items-center gap-2">{sentence ? <><Badge tone={TONES[sentence.action]}>{sentence.action}</Badge><span className="min-w-0 break-words"><SafeText text={sentence.words} /></span></> : <span className="text-bad"><SafeText text={text.wrong(rule)} /></span>}</li>;
      })}
    </ul>
  );
}

export function Rules() {
  const policies = useQuery({ queryKey: ["policies"], queryFn: async () => (await get<Schemas["PolicyPage"]>("/policies")).items });
  const act = useDo(["policies"]);
  return (
    <>
      <p className="text-t2">{text.about}</p>
      {(policies.isError || act.isError) && <ProblemLine error={policies.error ?? act.error} />}
      {policies.data?.length === 0 && <p className="text-t2">{text.none}</p>}
      {policies.data?.map((each) => (
        <section key={each.name} aria-label={each.name} className="rounded-card border bg-panel p-4">
          <header className="flex items-center gap-2"><h2 className="text-14 font-semibold">{each.name}</h2><span className="meta min-w-0 grow truncate">{text.applies(each.roles, each.repositories)} · {text.from} {each.source}</span>{each.source === "the database" && <Button small kind="danger" onClick={() => act.mutate(() => send(`/policies/${each.name}`, { method: "DELETE" }))}>{text.remove}</Button>}</header>
          <div className="mt-2"><RuleLines rules={each.rules} /></div>
          <p className="meta mt-1">{text.otherwise[each.default]}</p>
        </section>
      ))}
      <NewPolicy />
      <TryCall />
    </>
  );
}

function NewPolicy() {
  const act = useDo(["policies"]);
  const [rules, setRules] = useState("");
  const lines = rules.split("\n").map((each) => each.trim()).filter(Boolean);
  const isWrong = lines.some((each) => !inWords(each));
  return (
    <Card title={text.add} about={text.addAbout}>
      <form className="space-y-3" onSubmit={(event) => {
        event.preventDefault();
        const form = event.currentTarget;
        const values = new FormData(form);
        const repositories = String(values.get("repositories") ?? "").split("\n").map((each) => each.trim()).filter(Boolean);
        act.mutate(() => post("/policies", { name: values.get("name"), roles: values.getAll("roles"), repositories, rules: lines, default: values.get("default") }).then(() => {
          form.reset();
          setRules("");
        }));
      }}>
        <div className="flex flex-wrap gap-4">
          <label className="text-12 text-t2">{text.name}<Field name="name" required pattern="[a-z][a-z0-9_\-]{0,63}" className="mt-1 block" /></label>
          <label className="text-12 text-t2">{text.default}<select name="default" className={CHOICE}>{Object.entries(text.otherwise).map(([value, said]) => <option key={value} value={value}>{said}</option>)}</select></label>
          <fieldset><legend className="text-12 text-t2">{text.roles}</legend><div className="mt-1 flex min-h-7 flex-wrap items-center gap-x-3 gap-y-1">{ROLES.map((role) => <label key={role} className="flex items-center gap-1"><input type="checkbox" name="roles" value={role} className="accent-accent" />{role}</label>)}</div></fieldset>
        </div>
        <div className="grid gap-4 sm:grid-cols-2">
          <label className="block text-12 text-t2">{text.rules}<textarea rows={4} value={rules} onChange={(event) => setRules(event.target.value)} placeholder={text.rulesHint} spellCheck={false} aria-describedby="grammar" className="mt-1 w-full resize-y rounded-row border border-edge bg-panel p-2 font-mono text-12 text-t1" /></label>
          <div className="text-12"><p className="text-t2">{text.understood}</p><div className="mt-1 text-13" aria-live="polite">{lines.length ? <RuleLines rules={lines} /> : <p id="grammar" className="meta">{text.grammar}</p>}</div></div>
        </div>
        <label className="block text-12 text-t2">{text.repositories}<textarea name="repositories" rows={1} spellCheck={false} placeholder="github.com/acme/pay-*" className="mt-1 w-full resize-y rounded-row border border-edge bg-panel p-2 font-mono text-12 text-t1" /></label>
        {act.isError && <ProblemLine error={act.error} />}
        <Button type="submit" kind="primary" disabled={isWrong}>{text.create}</Button>
      </form>
    </Card>
  );
}

function TryCall() {
  const personas = usePersonas();
  const [answer, setAnswer] = useState<Schemas["Explanation"] | null>(null);
  const [error, setError] = useState<unknown>(null);
  return (
    <Card title={text.check} about={text.checkAbout}>
      <form className="flex flex-wrap items-end gap-2" onSubmit={(event) => {
        event.preventDefault();
        const values = new FormData(event.currentTarget);
        setError(null);
        post<Schemas["Explanation"]>("/policies/check", { call: values.get("call"), role: values.get("role"), persona: values.get("persona") }).then(setAnswer, setError);
      }}>
        <label className="grow text-12 text-t2">{text.call}<Field name="call" required placeholder={text.callHint} className="mt-1 block w-full font-mono" /></label>
        <label className="text-12 text-t2">{text.role}<select name="role" defaultValue="member" className={CHOICE}>{ROLES.map((each) => <option key={each}>{each}</option>)}</select></label>
        <label className="text-12 text-t2">{text.persona}<select name="persona" className={CHOICE}><option value="">{text.anyPersona}</option>{personas.data?.items.map((each) => <option key={each.name}>{each.name}</option>)}</select></label>
        <Button type="submit">{text.explain}</Button>
      </form>
      {error !== null && <div className="mt-2"><ProblemLine error={error} /></div>}
      {answer && <p role="status" className="mt-3 flex flex-wrap items-center gap-2"><Badge tone={TONES[answer.action as Action] ?? "none"}>{answer.action}</Badge><b>{text.decision[answer.action]}</b>{answer.rule && <span className="text-t2"><SafeText text={text.because(answer.rule, answer.source)} /></span>}</p>}
    </Card>
  );
}

export function PersonaList({ user }: { user: Schemas["User"] }) {
  const personas = usePersonas();
  const act = useDo(["personas"]);
  const [edited, setEdited] = useState<Schemas["WholePersona"] | null | undefined>(undefined);
  const [removed, setRemoved] = useState("");
  const tools = [...new Set(personas.data?.items.flatMap((each) => each.tools) ?? [])];
  const canEdit = user.role === "owner";
  return (
    <>
      <p className="text-t2">{text.personasAbout}</p>
      {(personas.isError || act.isError) && <ProblemLine error={personas.error ?? act.error} />}
      {canEdit && <Button kind="primary" icon="plus" onClick={() => setEdited(null)}>{own.add}</Button>}
      <div className="space-y-2">{personas.data?.items.map((each) => <PersonaCard key={each.name} persona={each} canEdit={canEdit} edit={setEdited} remove={() => setRemoved(each.name)} />)}</div>
      {edited !== undefined && <PersonaEditor persona={edited} tools={tools} onClose={() => setEdited(undefined)} />}
      {removed && (
        <Dialog title={own.removeTitle(removed)} onClose={() => setRemoved("")}>
          <p className="text-t2">{own.removeDetail}</p>
          <div className="mt-4 flex justify-end gap-2">
            <Button kind="quiet" onClick={() => setRemoved("")}>{strings.session.cancel}</Button>
            <Button kind="danger" onClick={() => { setRemoved(""); act.mutate(() => send(`/personas/${removed}`, { method: "DELETE" })); }}>{own.remove}</Button>
          </div>
        </Dialog>
      )}
    </>
  );
}

type CardProps = { persona: Schemas["Persona"]; canEdit: boolean; edit: (persona: Schemas["WholePersona"]) => void; remove: () => void };

function PersonaCard({ persona, canEdit, edit, remove }: CardProps) {
  const [open, setOpen] = useState(false);
  const whole = useQuery({ queryKey: ["persona", persona.name], enabled: open, staleTime: 60_000, queryFn: () => get<Schemas["WholePersona"]>(`/personas/${persona.name}`) });
  return (
    <section aria-label={persona.name} className="rounded-card border bg-panel">
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="fade inset-focus flex min-h-10 w-full items-center gap-x-2 gap-y-1 rounded-card px-3 py-2 text-left hover:bg-hover max-sm:flex-wrap">
        <Icon name="chevron" size={12} className={open ? "rotate-90" : ""} /><b>{persona.name}</b>{persona.own && <Badge tone="info">{own.own}</Badge>}<span className="min-w-0 grow text-t2 max-sm:order-1 max-sm:basis-full max-sm:pl-5"><SafeText text={persona.description} /></span><Badge tone={TONES[persona.default as Action] ?? "none"}>{text.otherwise[persona.default] ?? persona.default}</Badge>
      </button>
      {open && (
        <div className="border-t p-3">
          {whole.isError && <ProblemLine error={whole.error} />}
          <p className="meta">{text.tools}: {persona.tools.map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join(", ")}{persona.model ? ` · ${text.model}: ${persona.model}` : ""}</p>
          {canEdit && whole.data && <div className="mt-2 flex gap-2"><Button small aria-label={own.editName(persona.name)} onClick={() => edit(whole.data)}>{persona.own ? own.edit : own.copy}</Button>{persona.own && <Button small kind="danger" aria-label={own.removeName(persona.name)} onClick={remove}>{own.remove}</Button>}</div>}
          {whole.data && whole.data.rules.length > 0 && <div className="mt-2"><RuleLines rules={whole.data.rules} /></div>}
          {whole.data && <pre tabIndex={0} aria-label={text.prompt} className="mt-2 max-h-80 overflow-auto rounded-row bg-code p-3 text-12 whitespace-pre-wrap"><SafeText text={whole.data.prompt} /></pre>}
        </div>
      )}
    </section>
  );
}

// The plan of an interview. All fields have defaults but the title and the question.
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, type SubmitEvent, useState } from "react";
import { useLocation } from "wouter";
import { post } from "../../api/http_client";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { Button, Field, IconButton } from "../../shared/form_controls";
import { SafeText } from "../../shared/safe_text";
import { text as all } from "../../strings/interviews";
import { type BankQuestion, type Interview, LEVELS, type Level, languageName, useQuestionBank } from "./interview_api";

const text = all.plan;
const SELECT = "h-7 min-w-0 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1 pointer-coarse:h-11";
const AREA = "mt-1 w-full resize-y rounded-row border border-edge bg-panel p-2 text-13";
type Chosen = { id: string; language: string; minutes: string };

export function NewInterview({ onClose }: { onClose: () => void }) {
  const [, go] = useLocation();
  const queries = useQueryClient();
  const bank = useQuestionBank();
  const [chosen, setChosen] = useState<Chosen[]>([]);
  const [hasAi, setAi] = useState(true);
  const [levels, setLevels] = useState<Level[]>(LEVELS);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const usable = (bank.data ?? []).filter((each) => !each.problem);
  const found = (id: string) => usable.find((each) => each.id === id);
  const sum = chosen.reduce((total, each) => total + (Number(each.minutes) || found(each.id)?.minutes || 0), 0);

  async function create(event: SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const word = (name: string) => String(form.get(name) ?? "").trim();
    const count = (name: string) => (word(name) ? Number(word(name)) : undefined);
    if (chosen.length === 0) return setError(new Error(text.needsQuestion));
    setBusy(true);
    setError(null);
    try {
      const made = await post<Interview>("/interviews", {
        title: word("title"),
        questions: chosen.map((each) => ({ id: each.id, ...(each.language ? { language: each.language } : {}), ...(each.minutes ? { minutes: Number(each.minutes) } : {}) })),
        ...(count("minutes") ? { minutes: count("minutes") } : {}),
        attended: form.has("attended"), ai: hasAi, levels, first_level: levels.includes(word("first") as Level) ? word("first") : levels[0],
        adaptive: form.has("adaptive"), proactive_help: form.has("proactive"), company: word("company"), role: word("role"), expectations: word("expectations"),
        consent: word("consent"), extra_time_percent: count("extra") ?? 0, max_credit_minutes: count("offline") ?? 15, accommodations: word("accommodations"),
        ...(count("retention") ? { retention_days: count("retention") } : {}), hidden_results: form.has("hidden") ? "counts" : "nothing",
      });
      void queries.invalidateQueries({ queryKey: ["interviews"] });
      go(`/i/${made.id}/assess?invite=candidate`);
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  }

  return (
    <Dialog title={text.title} onClose={onClose} wide>
      <form onSubmit={(event) => void create(event)} className="space-y-4">
        <label className="block text-12 text-t2">{text.name}<Field name="title" required maxLength={200} autoFocus placeholder={text.nameHint} className="mt-1 h-8 w-full" /></label>
        <Questions bank={usable} isLoaded={bank.isSuccess} chosen={chosen} change={setChosen} />
        {bank.isError && <ProblemLine error={bank.error} retry={() => void bank.refetch()} />}
        <div className="flex flex-wrap items-end gap-4">
          <label className="text-12 text-t2">{text.minutes}<Field name="minutes" type="number" min={1} max={480} placeholder={sum ? String(sum) : ""} aria-describedby="minutes-about" className="mt-1 block w-24" /></label>
          <span id="minutes-about" className="meta pb-1.5">{text.minutesAbout(sum)}</span>
        </div>
        <div className="space-y-1.5">
          <Check name="attended" label={text.attended} about={text.attendedAbout} />
          <label className="flex items-baseline gap-2"><input type="checkbox" checked={hasAi} onChange={(event) => setAi(event.target.checked)} className="accent-accent" /><span>{text.ai} <span className="text-t3">{text.aiAbout}</span></span></label>
          {hasAi && <Levels levels={levels} change={setLevels} />}
        </div>
        <Fold title={text.job}>
          <div className="grid gap-3 sm:grid-cols-2">
            <label className="text-12 text-t2">{text.company}<Field name="company" maxLength={200} className="mt-1 w-full" /></label>
            <label className="text-12 text-t2">{text.role}<Field name="role" maxLength={200} className="mt-1 w-full" /></label>
          </div>
          <label className="mt-3 block text-12 text-t2">{text.expectations}<textarea name="expectations" rows={3} maxLength={20_000} className={AREA} /></label>
        </Fold>
        <Fold title={text.consent}>
          <p className="meta" id="consent-about">{text.consentAbout}</p>
          <textarea name="consent" rows={4} maxLength={20_000} aria-label={text.consent} aria-describedby="consent-about" defaultValue={text.consentText} className={AREA} />
        </Fold>
        <Fold title={text.accommodations}>
          <div className="grid gap-3 sm:grid-cols-3">
            <label className="text-12 text-t2">{text.extra}<Field name="extra" type="number" min={0} max={300} defaultValue={0} className="mt-1 w-full" /></label>
            <label className="text-12 text-t2">{text.offline}<Field name="offline" type="number" min={0} max={480} defaultValue={15} className="mt-1 w-full" /></label>
            <label className="text-12 text-t2">{text.retention}<Field name="retention" type="number" min={1} max={3650} placeholder={text.retentionHint} className="mt-1 w-full" /></label>
          </div>
          <label className="mt-3 block text-12 text-t2">{text.words}<textarea name="accommodations" rows={2} maxLength={20_000} className={AREA} /></label>
          <div className="mt-2"><Check name="hidden" label={text.hidden} isOff /></div>
        </Fold>
        {error !== null && <ProblemLine error={error} />}
        <div className="flex justify-end gap-2">
          <Button kind="quiet" onClick={onClose}>{all.cancel}</Button>
          <Button type="submit" kind="primary" disabled={busy}>{busy ? text.creating : text.create}</Button>
        </div>
      </form>
    </Dialog>
  );
}

function Questions({ bank, isLoaded, chosen, change }: { bank: BankQuestion[]; isLoaded: boolean; chosen: Chosen[]; change: (chosen: Chosen[]) => void }) {
  const rest = bank.filter((each) => !chosen.some((other) => other.id === each.id));
  const set = (index: number, part: Partial<Chosen>) => change(chosen.map((each, at) => (at === index ? { ...each, ...part } : each)));
  return (
    <fieldset>
      <legend className="text-12 text-t2">{text.questions}</legend>
      {isLoaded && bank.length === 0 && <p className="mt-1 text-t2">{text.noQuestions}</p>}
      <ol className="mt-1 space-y-1">
        {chosen.map((each, index) => {
          const question = bank.find((other) => other.id === each.id);
          const title = question?.title ?? each.id;
          return (
            <li key={each.id} className="flex flex-wrap items-center gap-2 rounded-row border bg-panel px-2 py-1">
              <span className="w-4 text-12 text-t3">{index + 1}</span>
              <span className="min-w-32 grow truncate font-semibold"><SafeText text={title} /></span>
              <select aria-label={`${text.firstLanguage}: ${title}`} value={each.language} onChange={(event) => set(index, { language: event.target.value })} className={SELECT}>
                <option value="">{text.anyLanguage}</option>
                {question?.languages.map((language) => <option key={language} value={language}>{languageName(language)}</option>)}
              </select>
              <Field aria-label={`${text.ownMinutes}: ${title}`} type="number" min={1} max={480} placeholder={`${question?.minutes ?? ""} min`} value={each.minutes} onChange={(event) => set(index, { minutes: event.target.value })} className="w-20" />
              <IconButton icon="chevron" size={12} label={text.up(title)} disabled={index === 0} className="[&_svg]:-rotate-90" onClick={() => change(chosen.map((_, at) => chosen[at === index ? index - 1 : at === index - 1 ? index : at] as Chosen))} />
              <IconButton icon="cross" size={12} label={text.remove(title)} onClick={() => change(chosen.filter((other) => other !== each))} />
            </li>
          );
        })}
      </ol>
      {rest.length > 0 && (
        <select aria-label={text.add} value="" onChange={(event) => event.target.value && change([...chosen, { id: event.target.value, language: "", minutes: "" }])} className={`mt-1 w-full ${SELECT}`}>
          <option value="">{text.add}…</option>
          {rest.map((each) => <option key={each.id} value={each.id}>{`${each.title} · ${each.minutes} min · ${each.languages.map(languageName).join(", ")}`}</option>)}
        </select>
      )}
    </fieldset>
  );
}

function Levels({ levels, change }: { levels: Level[]; change: (levels: Level[]) => void }) {
  return (
    <div className="ml-6 space-y-1.5">
      <fieldset className="flex flex-wrap gap-x-4 gap-y-1">
        <legend className="text-12 text-t2">{text.levels}</legend>
        {LEVELS.map((level) => (
          <label key={level} title={all.levelsAbout[level]} className="flex items-center gap-1.5">
            <input type="checkbox" checked={levels.includes(level)} disabled={levels.length === 1 && levels.includes(level)} onChange={(event) => change(LEVELS.filter((each) => (each === level ? event.target.checked : levels.includes(each))))} className="accent-accent" />
            {all.levels[level]}
          </label>
        ))}
      </fieldset>
      <label className="flex items-center gap-2 text-12 text-t2">{text.first}
        <select name="first" className={SELECT}>{levels.map((level) => <option key={level} value={level}>{all.levels[level]}</option>)}</select>
      </label>
      <Check name="adaptive" label={text.adaptive} />
      <Check name="proactive" label={text.proactive} isOff />
    </div>
  );
}

function Check({ name, label, about = "", isOff = false }: { name: string; label: string; about?: string; isOff?: boolean }) {
  return <label className="flex items-baseline gap-2"><input type="checkbox" name={name} defaultChecked={!isOff} className="accent-accent" /><span>{label} {about && <span className="text-t3">{about}</span>}</span></label>;
}

const Fold = ({ title, children }: { title: string; children: ReactNode }) => (
  <details className="rounded-card border px-3 py-2"><summary className="font-semibold">{title}</summary><div className="mt-2">{children}</div></details>
);

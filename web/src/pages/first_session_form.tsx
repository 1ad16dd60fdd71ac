// The first visit: a model, code and a task on one page. The first choice of each needs nothing, so Enter is enough.
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, type SubmitEvent, useEffect, useState } from "react";
import { Link, Redirect, useLocation, useSearch } from "wouter";
import { type Schemas, type Session, post, send } from "../api/http_client";
import { useModels, useSessions } from "../api/queries";
import { Button, Field, Keys } from "../shared/form_controls";
import { ProblemLine } from "../shared/error_message";
import { SafeText } from "../shared/safe_text";
import { setPageTitle } from "../shared/page_title";
import { sample } from "../sample_project";
import { strings } from "../strings";

const text = strings.start;
type Model = "demo" | "ready" | "key";
type Code = "sample" | "repository";

export function Start({ user }: { user: Schemas["User"] }) {
  const models = useModels();
  const sessions = useSessions("");
  const isFromLink = new URLSearchParams(useSearch()).has("first");
  const queries = useQueryClient();
  const [, go] = useLocation();
  const [model, setModel] = useState<Model>("demo");
  const [code, setCode] = useState<Code>("sample");
  const [provider, setProvider] = useState("anthropic");
  const [key, setKey] = useState("");
  const [repository, setRepository] = useState("");
  const [prompt, setPrompt] = useState(sample.prompt);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    setPageTitle(text.title(user.name));
  }, [user.name]);
  // A login link leads here. A user with sessions goes on to Home, unless they opened this page themselves.
  if (isFromLink && !busy && sessions.data?.pages[0]?.items.length) return <Redirect to="/" replace />;
  const ready = models.data?.providers.find((each) => each.usable && each.name !== "scripted" && each.default_model);
  const keyed = models.data?.providers.filter((each) => !each.usable && each.default_model) ?? [];

  async function start(event: SubmitEvent) {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      if (model === "key") await send(`/users/me/model-keys/${provider}`, { method: "PUT", body: { key: key.trim() } });
      const chosen = model === "demo" ? sample.model : model === "ready" ? ready?.default_model : keyed.find((each) => each.name === provider)?.default_model;
      const source = code === "sample" ? { files: sample.files } : { repository: repository.trim(), deliver: true };
      const made = await post<Session>("/sessions", { purpose: prompt.split("\n")[0]?.slice(0, 120) ?? "", prompt, model: chosen ?? "", ...source });
      void queries.invalidateQueries({ queryKey: ["sessions"] });
      go(`/s/${made.id}`);
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  }

  return (
    <main className="h-full overflow-auto p-6 max-sm:p-3">
      <form onSubmit={(event) => void start(event)} className="mx-auto mt-[6vh] max-w-2xl">
        <h1 className="text-20 font-semibold"><SafeText text={text.title(user.name)} /></h1>
        <p className="mt-1 text-14 text-t2">{text.about}</p>
        <Step number={1} title={text.model}>
          <Choice name="model" checked={model === "demo"} pick={() => setModel("demo")} title={text.demo} about={text.demoAbout} />
          {ready && <Choice name="model" checked={model === "ready"} pick={() => setModel("ready")} title={ready.default_model ?? ready.name} about={text.readyAbout} />}
          <Choice name="model" checked={model === "key"} pick={() => setModel("key")} title={text.key} about={text.keyAbout}>
            {model === "key" && (
              <div className="mt-2 flex flex-wrap gap-2">
                <select aria-label={strings.settings.provider} value={provider} onChange={(event) => setProvider(event.target.value)} className="h-7 rounded-row border border-edge bg-panel px-1.5 pointer-coarse:h-11">{keyed.map((each) => <option key={each.name} value={each.name}>{each.default_model}</option>)}</select>
                <Field type="password" autoComplete="off" required aria-label={strings.settings.key} placeholder={strings.settings.key} value={key} onChange={(event) => setKey(event.target.value)} className="min-w-48 grow" />
              </div>
            )}
          </Choice>
        </Step>
        <Step number={2} title={text.code}>
          <Choice name="code" checked={code === "sample"} pick={() => setCode("sample")} title={text.sample} about={text.sampleAbout} />
          <Choice name="code" checked={code === "repository"} pick={() => setCode("repository")} title={text.repository} about={text.repositoryAbout}>
            {code === "repository" && <Field required aria-label={strings.create.repository} placeholder={strings.create.repositoryHint} value={repository} onChange={(event) => setRepository(event.target.value)} className="mt-2 w-full font-mono" />}
          </Choice>
          {code === "repository" && model === "demo" && <p className="meta pl-6">{text.demoOnly}</p>}
        </Step>
        <Step number={3} title={text.ask}>
          <textarea aria-label={strings.create.prompt} required rows={2} value={prompt} onChange={(event) => setPrompt(event.target.value)} className="w-full resize-y rounded-row border border-edge bg-panel p-2 text-14" onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit();
          }} />
        </Step>
        {error !== null && <div className="mt-3"><ProblemLine error={error} /></div>}
        <div className="mt-4 flex items-center gap-3">
          <Button type="submit" kind="primary" autoFocus disabled={busy} className="h-9 px-5 text-14">{busy ? strings.create.starting : strings.create.start} <Keys keys="↵" onAccent /></Button>
          <Link href="/" className="text-t2 underline">{text.skip}</Link>
        </div>
        <p className="meta mt-6">{text.after}</p>
      </form>
    </main>
  );
}

function Step({ number, title, children }: { number: number; title: string; children: ReactNode }) {
  return (
    <fieldset className="mt-5 rounded-card border bg-panel p-4">
      <legend className="sr-only">{title}</legend>
      <p aria-hidden="true" className="mb-2 flex items-center gap-2 font-semibold"><span className="grid size-5 place-items-center rounded-full bg-accent text-11 text-on-accent">{number}</span>{title}</p>
      <div className="space-y-2">{children}</div>
    </fieldset>
  );
}

function Choice({ name, checked, pick, title, about, children }: { name: string; checked: boolean; pick: () => void; title: string; about: string; children?: ReactNode }) {
  return (
    <div className={`rounded-row border p-2 ${checked ? "border-accent bg-selected" : "border-line"}`}>
      <label className="flex items-baseline gap-2">
        <input type="radio" name={name} checked={checked} onChange={pick} className="accent-accent" />
        <span><span className="font-semibold">{title}</span> <span className="text-t2">{about}</span></span>
      </label>
      {children}
    </div>
  );
}

import { useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useEffect, useState } from "react";
import { post } from "../api/http_client";
import { deleteViews } from "../api/stored_folds";
import { Button, Field } from "../shared/form_controls";
import { ProblemLine } from "../shared/error_message";
import { setPageTitle } from "../shared/page_title";
import { strings } from "../strings";

export function Login({ methods }: { methods: string[] }) {
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    setPageTitle(strings.login.title);
    deleteViews(); // of whoever was logged in before
  }, []);

  async function submit(event: SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    setBusy(true);
    setError(null);
    try {
      await post("/login", { name: form.get("name"), password: form.get("password") });
      await queries.invalidateQueries();
    } catch (failed) {
      setError(failed);
    } finally {
      setBusy(false);
    }
  }

  return (
    <main className="grid h-full place-items-center p-4">
      <form onSubmit={(event) => void submit(event)} className="w-full max-w-xs rounded-dialog border bg-panel p-6">
        <h1 className="text-20 font-semibold">{strings.hutch}</h1>
        <label className="mt-4 block text-12 text-t2">
          {strings.login.name}
          <Field name="name" autoComplete="username" required autoFocus className="mt-1 h-8 w-full" />
        </label>
        <label className="mt-3 block text-12 text-t2">
          {strings.login.password}
          <Field name="password" type="password" autoComplete="current-password" required className="mt-1 h-8 w-full" />
        </label>
        {error !== null && <div className="mt-3"><ProblemLine error={error} /></div>}
        <Button type="submit" kind="primary" disabled={busy} className="mt-4 h-8 w-full justify-center">{strings.login.button}</Button>
        {methods.includes("oidc") && (
          <a href="/api/v1/login/oidc?next=/" className="mt-3 block text-center text-link underline">{strings.login.provider}</a>
        )}
        <p className="meta mt-4">{strings.login.noPassword}</p>
      </form>
    </main>
  );
}

// An error in the server's words, with a link to the remedy.
import type { ReactNode } from "react";
import { Link } from "wouter";
import { asProblem } from "../api/http_client";
import { strings } from "../strings";
import { Button } from "./form_controls";
import { SafeText } from "./safe_text";

/** True if a message says that a model lacks its key, or that there is no model. */
export const needsModelKey = (message: string) => /No model is connected|There is no key for|_api_key\b/.test(message);

export function ModelSettingsLink() {
  return <Link href="/settings/models" className="whitespace-nowrap text-link underline">{strings.error.modelSettings}</Link>;
}

export function ProblemLine({ error, retry, children }: { error: unknown; retry?: () => void; children?: ReactNode }) {
  const problem = asProblem(error);
  return (
    <div role="alert" className="flex flex-wrap items-center gap-x-3 gap-y-1 rounded-row bg-bad-tint px-2 py-1 text-13 text-bad">
      <span className="min-w-0 break-words"><SafeText text={problem.message} /></span>
      {problem.traceId && <span className="text-11 select-all">{strings.error.trace(problem.traceId)}</span>}
      {needsModelKey(problem.message) && <ModelSettingsLink />}
      {retry && <Button kind="quiet" small onClick={retry}>{strings.error.again}</Button>}
      {children}
    </div>
  );
}

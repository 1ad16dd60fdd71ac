// Waiting inputs: messages that the agent gets before its next step, and prompts of later runs.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, get, post } from "../../api/http_client";
import { Button } from "../../shared/form_controls";
import { ProblemLine } from "../../shared/error_message";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { useSessionContext, useView } from "./session_context";

const POLL_MS = 2000;
const LIMIT = 200;

/** `edit` gets the text of the withdrawn message. */
export function Tray({ edit }: { edit: (text: string) => void }) {
  const { id, stream } = useSessionContext();
  const view = useView();
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const isWorking = view.run !== "" || view.state === "queued" || view.state === "paused";
  const inputs = useQuery({ queryKey: ["inputs", id, view.run, stream.sent], enabled: isWorking, refetchInterval: POLL_MS, placeholderData: (before) => before, queryFn: () => readInputs(id) });
  if (!isWorking) return null;
  const waiting = (inputs.data ?? []).flatMap((each) => {
    if (each.input.type !== "message" && each.input.type !== "prompt") return [];
    const row = each.run_id ? stream.row(`run:${each.run_id}`) : undefined;
    const waits = each.input.type === "message" ? !each.processed : row?.kind === "prompt" ? row.state === "queued" : !each.processed;
    return waits && "text" in each.input ? [{ seq: each.seq, type: each.input.type, text: each.input.text }] : [];
  });
  if (waiting.length === 0 && error === null) return null;
  const withdraw = (seq: number, text: string) => {
    setError(null);
    post(`/sessions/${id}/inputs`, { type: "withdraw", input: seq }).then(() => {
      edit(text);
      void queries.invalidateQueries({ queryKey: ["inputs", id] });
    }, setError);
  };
  return (
    <ul aria-label={strings.composer.tray} className="mb-2 max-h-28 overflow-auto rounded-row border">
      {error !== null && <li><ProblemLine error={error} /></li>}
      {waiting.map((each) => (
        <li key={each.seq} className="flex min-h-7 items-center gap-2 px-2 text-12">
          <span className="shrink-0 text-t3">{each.type === "message" ? strings.composer.beforeNext : strings.composer.nextRun}</span>
          <span className="min-w-0 grow truncate"><SafeText text={each.text} /></span>
          <Button kind="quiet" small data-take-back onClick={() => withdraw(each.seq, each.text)}>{strings.session.takeBack}</Button>
        </li>
      ))}
    </ul>
  );
}

async function readInputs(id: string): Promise<Schemas["Input"][]> {
  const items: Schemas["Input"][] = [];
  for (let after: number | null = 0; after !== null; ) {
    const page: Schemas["InputPage"] = await get(`/sessions/${id}/inputs?limit=${LIMIT}&after=${after}`);
    items.push(...page.items);
    after = page.next ?? null;
  }
  return items;
}

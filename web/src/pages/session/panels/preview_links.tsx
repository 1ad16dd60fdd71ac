// Links to pages that programs in the jail serve. A preview has an address of its own and cannot reach this page.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, get } from "../../../api/http_client";
import { ProblemLine } from "../../../shared/error_message";
import { strings } from "../../../strings";
import { useSessionContext } from "../session_context";

const POLL_MS = 4000;

export function Preview({ shown }: { shown: boolean }) {
  const { id } = useSessionContext();
  const [chosen, setChosen] = useState<number | null>(null);
  const ports = useQuery({ queryKey: ["previews", id], enabled: shown, refetchInterval: POLL_MS, queryFn: async () => (await get<Schemas["Previews"]>(`/sessions/${id}/previews`)).items });
  const preview = ports.data?.find((each) => each.port === chosen) ?? ports.data?.[0];
  if (ports.isError) return <div className="p-2"><ProblemLine error={ports.error} retry={() => void ports.refetch()} /></div>;
  if (!preview) return <p className="p-4 text-center text-t2">{strings.panel.noPreview}</p>;
  const isLocal = /^(localhost|127\.0\.0\.1)$/.test(location.hostname) || location.protocol === "https:";
  return (
    <div className="flex h-full flex-col">
      <div className="flex h-8 shrink-0 items-center gap-2 border-b px-3 text-12">
        {ports.data?.map((each) => <button key={each.port} type="button" aria-pressed={each.port === preview.port} onClick={() => setChosen(each.port)} className={`h-6 rounded-row px-2 ${each.port === preview.port ? "bg-selected" : "hover:bg-hover"}`}>:{each.port}</button>)}
        <span className="grow" />
        <a href={`/preview/${id}/${preview.port}/`} target="_blank" rel="noopener noreferrer" className="text-link underline">{strings.panel.openPreview}</a>
      </div>
      {isLocal && <iframe key={preview.port} title={`${strings.panel.preview} :${preview.port}`} src={`/preview/${id}/${preview.port}/`} sandbox="allow-scripts allow-forms allow-same-origin allow-popups" className="min-h-0 grow border-2 border-accent bg-[#fff]" />}
    </div>
  );
}

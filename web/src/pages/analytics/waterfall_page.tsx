// The waterfall of a session: its parts as bars on one time axis, in a table with their times and costs.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link, useSearchParams } from "wouter";
import { type Schemas, asProblem, get } from "../../api/http_client";
import { useSession } from "../../api/queries";
import { titleOf } from "../../display_format";
import { CopyButton } from "../../shared/copy_button";
import { ProblemLine } from "../../shared/error_message";
import { Badge, Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { SafeText } from "../../shared/safe_text";
import { setPageTitle } from "../../shared/page_title";
import { text } from "../../strings/analytics";
import { NotFound } from "../not_found";
import { Choice } from "./report_filters";
import { shown } from "./report_queries";
import { Scrolled } from "./report_table";

type Span = Schemas["Span"];
type Kind = Span["kind"];
const w = text.waterfall;
const REFRESH_MS = 10_000;
const FIRST_ROWS = 300;
const TICKS = [0, 0.25, 0.5, 0.75, 1];
const COLOURS: Record<Kind, string> = { prepare: "person-4", queue: "person-7", run: "person-1", model: "person-2", tool: "person-3", wait: "person-6", command: "person-5", tests: "person-8" };
const LINK = "fade inline-flex h-7 items-center gap-1.5 rounded-row px-2 text-13 whitespace-nowrap text-t2 hover:bg-hover hover:text-t1 pointer-coarse:h-11";
const CELL = "px-2 text-right whitespace-nowrap tabular-nums";

const tookS = (span: Span) => (span.end_ms - span.start_ms) / 1000;

export function WaterfallPage({ id }: { id: string }) {
  const session = useSession(id);
  const found = useQuery({ queryKey: ["analytics", "waterfall", id], queryFn: ({ signal }) => get<Schemas["Waterfall"]>(`/analytics/sessions/${id}/waterfall`, signal), refetchInterval: REFRESH_MS });
  const [params, setParams] = useSearchParams();
  const title = session.data ? titleOf(session.data) : "";
  useEffect(() => {
    setPageTitle([w.title, title].filter(Boolean).join(" · "));
  }, [title]);
  if (session.isError && asProblem(session.error).status === 404) return <NotFound />;
  const only = params.get("kind") ?? "";
  const spans = found.data?.spans ?? [];
  const kinds = [...new Set(spans.map((span) => span.kind))];
  const file = `/api/v1/analytics/sessions/${id}/waterfall`;
  return (
    <main aria-label={w.title} className="flex h-full flex-col">
      <header className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b bg-panel px-3 py-2">
        <Link href={`/s/${id}`} className="inline-flex items-center gap-1 text-t2 hover:text-t1"><Icon name="chevron" size={14} className="rotate-180" />{w.back}</Link>
        <h1 className="min-w-0 truncate text-14 font-semibold">{w.title}: <SafeText text={title} oneLine /></h1>
        <span className="flex flex-wrap items-center sm:ml-auto">
          <a href={`${file}.csv`} download="waterfall.csv" aria-label={text.download(text.csv)} className={LINK}><Icon name="download" size={14} />{text.csv}</a>
          <a href={file} download="waterfall.json" aria-label={text.download(text.json)} className={LINK}><Icon name="download" size={14} />{text.json}</a>
          <CopyButton text={() => location.href} label={text.link} />
        </span>
      </header>
      <div className="min-h-0 grow overflow-auto p-3 pb-8">
        {found.isError && <ProblemLine error={found.error} retry={() => void found.refetch()} />}
        {found.isPending && <div className="skeleton h-64" />}
        {found.data && spans.length === 0 && <p className="mx-auto mt-[12vh] max-w-prose text-center text-t2">{w.empty}</p>}
        {spans.length > 0 && (
          <div className="space-y-3">
            <Totals spans={spans} />
            <Choice label={w.only} value={only} onChange={(kind) => setParams(kind ? { kind } : {}, { replace: true })} options={[["", w.everything], ...kinds.map((kind): [string, string] => [kind, w.kinds[kind]])]} />
            <Bars key={only} id={id} spans={only ? spans.filter((span) => span.kind === only) : spans} begin={spans[0]?.start_ms ?? 0} end={Math.max(...spans.map((span) => span.end_ms))} />
            {found.data?.more && <p className="meta">{w.more(spans.length)}</p>}
          </div>
        )}
      </div>
    </main>
  );
}

/** Sums by kind. Runs contain the others; tools of one step may overlap. */
function Totals({ spans }: { spans: Span[] }) {
  const sum = (kind: Kind) => spans.filter((span) => span.kind === kind).reduce((total, span) => total + tookS(span), 0);
  const cost = spans.reduce((total, span) => total + (span.kind === "model" ? span.cost_usd ?? 0 : 0), 0);
  const first = spans.flatMap((span) => (span.first_token_s === null ? [] : [span.first_token_s])).sort((a, b) => a - b);
  const cards: [string, string][] = [
    ...(["run", "model", "tool", "tests", "wait", "queue", "prepare"] as const).filter((kind) => spans.some((span) => span.kind === kind)).map((kind): [string, string] => [w.totals[kind], shown(sum(kind), "s")]),
    ...(first.length > 0 ? [[w.firstToken, shown(first[Math.floor(first.length / 2)], "s")] as [string, string]] : []),
    [w.cost, shown(cost, "usd")],
    [w.failed, spans.filter((span) => !span.ok && span.kind !== "run").length.toLocaleString("en")],
  ];
  return (
    <section aria-label={text.totals} className="rounded-card border bg-panel px-3 py-2">
      <dl className="grid grid-cols-2 gap-x-4 gap-y-2 sm:grid-cols-5 xl:grid-cols-10">
        {cards.map(([name, value]) => <div key={name} className="flex flex-col-reverse justify-end"><dt className="text-12 text-t2">{name}</dt><dd className="text-16 font-semibold">{value}</dd></div>)}
      </dl>
    </section>
  );
}

function Bars({ id, spans, begin, end }: { id: string; spans: Span[]; begin: number; end: number }) {
  const [rows, setRows] = useState(FIRST_ROWS);
  const width = Math.max(1, end - begin);
  return (
    <div className="rounded-card border bg-panel">
      <Scrolled label={w.table}>
        <table className="w-full min-w-[720px] table-fixed border-collapse text-12">
          <thead className="sticky top-0 z-10 bg-panel">
            <tr className="border-b text-t2">
              <th scope="col" className="w-64 px-2 py-1 text-left">{w.part}</th>
              <th scope="col" className="w-20 px-2 py-1 text-right">{w.took}</th>
              <th scope="col" className="w-20 px-2 py-1 text-right">{w.cost}</th>
              <th scope="col" className="px-2 py-1 text-left font-normal"><span className="sr-only">{w.start}</span><span aria-hidden="true" className="flex justify-between">{TICKS.map((tick) => <span key={tick}>{shown((tick * width) / 1000, "s")}</span>)}</span></th>
            </tr>
          </thead>
          <tbody>
            {spans.slice(0, rows).map((span) => (
              <tr key={`${span.kind}${span.seq}`} className="h-7 border-b last:border-b-0 hover:bg-hover">
                <th scope="row" className={`truncate px-2 text-left font-normal ${span.depth ? "pl-6" : ""}`}>
                  <Link href={`/s/${id}/play?at=${span.seq}`} title={w.open} className="text-link underline">{w.kinds[span.kind]}</Link> <SafeText text={span.name} oneLine />{!span.ok && <> <Badge tone="bad">{w.bad}</Badge></>}
                </th>
                <td className={CELL}>{shown(tookS(span), "s")}</td>
                <td className={CELL}>{span.cost_usd === null ? "" : shown(span.cost_usd, "usd")}</td>
                <td className="px-2">
                  <span className="sr-only">{w.startsAt(shown((span.start_ms - begin) / 1000, "s"))}</span>
                  <span aria-hidden="true" className={`relative block h-3 ${COLOURS[span.kind]}`}>
                    <span className="absolute top-0 h-3 min-w-[2px] rounded-[2px]" style={{ left: `${(100 * (span.start_ms - begin)) / width}%`, width: `${(100 * (span.end_ms - span.start_ms)) / width}%`, background: "var(--person)", opacity: span.depth ? 1 : 0.45 }} />
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolled>
      {spans.length > rows && <p className="border-t p-2"><Button small onClick={() => setRows(rows + FIRST_ROWS)}>{w.rest(spans.length - rows)}</Button></p>}
    </div>
  );
}

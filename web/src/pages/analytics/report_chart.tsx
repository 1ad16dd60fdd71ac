// A chart with its legend, the values at the pointer, and the marks. All of these are in tables, too.
import { Suspense, lazy, useState } from "react";
import { Boundary } from "../../shared/error_boundary";
import { Badge } from "../../shared/form_controls";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/analytics";
import { Choice } from "./report_filters";
import { type ReportRequest, type Report, lineName, moment, shown } from "./report_queries";

const ChartCanvas = lazy(async () => ({ default: (await import("./chart_canvas")).ChartCanvas }));
const PEOPLE = 8;
const COLOURS = ["person-1", "person-2", "person-3", "person-4", "person-5", "person-6", "person-7", "person-8"];

export function ReportChart({ report, column, request }: { report: Report; column: Report["columns"][number]; request: ReportRequest }) {
  const [readout, setReadout] = useState("");
  const per = text.per[report.step] ?? "";
  const total = column.unit === "count" || column.unit === "usd" || column.unit === "tokens" ? shown(report.total[column.name], column.unit) : "";
  const label = text.chartLabel(column.title, per, moment(report.from_ms, report.step), moment(report.to_ms, report.step), report.series.length, total === text.none ? "" : total);
  const isAlone = report.series.length === 1;
  const first = report.series[0]?.key === "" && !isAlone ? 1 : 0;
  return (
    <section aria-label={text.chart} className="rounded-card border bg-panel p-3">
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <Choice label={text.show} value={column.name} onChange={(show) => request.set({ show })} options={report.columns.map((each) => [each.name, each.title])} />
        <span className="text-12 text-t2">{per}</span>
        <span aria-hidden="true" className="ml-auto min-h-4 min-w-0 truncate text-12 text-t2"><SafeText text={readout} oneLine /></span>
      </div>
      <Boundary key={column.name}>
        <Suspense fallback={<div style={{ height: 240 }} />}><ChartCanvas report={report} column={column} label={label} readout={setReadout} /></Suspense>
      </Boundary>
      {!isAlone && (
        <ul className="mt-2 flex flex-wrap gap-x-4 gap-y-1 text-12">
          {report.series.map((line, at) => (
            <li key={`${at}${line.key}`} className={`flex min-w-0 items-center gap-1.5 ${at < first ? "" : COLOURS[(at - first) % PEOPLE]}`}>
              <span aria-hidden="true" className="w-5 shrink-0 border-t-2" style={{ borderColor: at < first ? "var(--text-2)" : "var(--person)", borderStyle: at < first || at - first >= PEOPLE ? "dashed" : "solid" }} />
              <span className="max-w-48 truncate"><SafeText text={lineName(report, line)} oneLine /></span>
            </li>
          ))}
        </ul>
      )}
      {report.rows.length > report.series.length && <p className="meta mt-1">{text.firstKeys(report.series.length - first, report.rows.length)}</p>}
      {report.annotations.length > 0 && (
        <details className="mt-2 text-12">
          <summary className="text-t2">{text.marks} ({report.annotations.length})</summary>
          <ul className="mt-1 max-h-40 overflow-auto" tabIndex={0} aria-label={text.marks}>
            {report.annotations.map((each) => <li key={each.id} className="flex flex-wrap items-center gap-2 py-0.5"><time className="text-t3">{moment(each.at_ms, "minute")}</time><Badge tone="warn">{text.markKinds[each.kind] ?? each.kind}</Badge><span className="min-w-0 break-words"><SafeText text={each.text} /></span></li>)}
          </ul>
        </details>
      )}
    </section>
  );
}

// The table behind a chart. Each row links to its subject: a session, a task, or the report for that key alone.
import { type ReactNode } from "react";
import { Link } from "wouter";
import { Icon } from "../../shared/icons";
import { SafeText, showHidden } from "../../shared/safe_text";
import { text } from "../../strings/analytics";
import { type ReportRequest, FIELDS, type Report, labelOf, lineName, moment, reportAddress, shown } from "./report_queries";

const MAX_ROWS = 1000;
const CELL = "px-2 py-1 text-right whitespace-nowrap tabular-nums";
const FIRST = "sticky left-0 max-w-64 bg-panel px-2 py-1 text-left font-normal max-sm:max-w-36";

export function ReportTable({ report, request }: { report: Report; request: ReportRequest }) {
  const descends = request.sort.startsWith("-");
  const by = request.sort.replace(/^-/, "");
  const rows = by ? [...report.rows].sort((a, b) => ((a.values[by] ?? -Infinity) - (b.values[by] ?? -Infinity)) * (descends ? -1 : 1)) : report.rows;
  return (
    <div className="rounded-card border bg-panel">
      <Scrolled label={text.table}>
        <table className="w-full border-collapse text-13">
          <thead>
            <tr className="border-b text-12 text-t2">
              <th scope="col" className={FIRST}>{text.key[report.name === "latency" ? "latency" : report.group]}</th>
              {report.columns.map(({ name, title }) => (
                <th key={name} scope="col" aria-sort={by === name ? (descends ? "descending" : "ascending") : "none"} className="p-0 text-right">
                  <button type="button" title={text.sortBy(title)} onClick={() => request.set({ sort: by === name && descends ? name : `-${name}` })} className="inset-focus h-8 px-2 font-semibold whitespace-nowrap hover:bg-hover pointer-coarse:h-11">
                    {title}{by === name && <Icon name="down" size={12} className={`ml-1 inline ${descends ? "" : "rotate-180"}`} />}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.key} className="border-b last:border-b-0">
                <th scope="row" className={`${FIRST} truncate`} title={showHidden(labelOf(report.group, row))}><RowName report={report} request={request} row={row} /></th>
                {report.columns.map(({ name, unit }) => <td key={name} className={CELL}>{shown(row.values[name], unit)}</td>)}
              </tr>
            ))}
          </tbody>
          {Object.keys(report.total).length > 0 && report.name !== "latency" && report.group !== "all" && (
            <tfoot>
              <tr className="border-t font-semibold">
                <th scope="row" className={FIRST}>{text.total}</th>
                {report.columns.map(({ name, unit }) => <td key={name} className={CELL}>{shown(report.total[name], unit)}</td>)}
              </tr>
            </tfoot>
          )}
        </table>
      </Scrolled>
      {report.rows.length >= MAX_ROWS && <p className="meta border-t px-2 py-1">{text.manyRows}</p>}
    </div>
  );
}

function RowName({ report, request, row }: { report: Report; request: ReportRequest; row: Report["rows"][number] }) {
  const label = labelOf(report.name === "latency" ? "latency" : report.group, row);
  const name = <SafeText text={label} oneLine />;
  const field = FIELDS.find((each) => each === report.group);
  if (!row.key || report.name === "latency") return name;
  if (report.group === "session") return <Link href={`/s/${row.key}`} className="text-link underline">{name}</Link>;
  if (report.group === "task") return <Link href={`/tasks/${row.key}`} className="text-link underline">{name}</Link>;
  if (!field || !request.fields.includes(field)) return name;
  return <Link href={reportAddress(request.params, { [field]: row.key, by: "", sort: "" })} title={text.narrow(showHidden(label))} className="text-link underline">{name}</Link>;
}

/** The lines of the chart in words: for each time with a value one row. */
export function TimeTable({ report, column }: { report: Report; column: Report["columns"][number] }) {
  const times = report.times_ms.map((at, index) => ({ at, values: report.series.map((line) => line.values[column.name]?.[index]) })).filter(({ values }) => values.some((value) => value));
  return (
    <details className="rounded-card border bg-panel">
      <summary className="px-3 py-1.5 text-12 text-t2 hover:bg-hover">{text.byTime}: {column.title}</summary>
      {times.length === 0 ? <p className="px-3 py-2 text-t2">{text.noneInTime}</p> : (
        <Scrolled label={text.byTime}>
          <table className="w-full border-collapse text-13">
            <thead><tr className="border-b text-12 text-t2"><th scope="col" className={FIRST}>{text.time}</th>{report.series.map((line, at) => <th key={`${at}${line.key}`} scope="col" className="max-w-48 truncate px-2 py-1 text-right" title={showHidden(lineName(report, line))}><SafeText text={lineName(report, line)} oneLine /></th>)}</tr></thead>
            <tbody>{times.map(({ at, values }) => <tr key={at} className="border-b last:border-b-0"><th scope="row" className={FIRST}>{moment(at, report.step)}</th>{values.map((value, index) => <td key={index} className={CELL}>{shown(value, column.unit)}</td>)}</tr>)}</tbody>
          </table>
        </Scrolled>
      )}
    </details>
  );
}

/** A wide table scrolls in itself, also by keys. */
export function Scrolled({ label, children }: { label: string; children: ReactNode }) {
  return <div role="region" aria-label={label} tabIndex={0} className="inset-focus relative max-h-[60vh] overflow-auto">{children}</div>;
}

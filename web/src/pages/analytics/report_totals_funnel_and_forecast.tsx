// The figures above a chart: the totals, the way from task to merged change, and the forecast.
import { dollars } from "../../display_format";
import { text } from "../../strings/analytics";
import { type Report, shown } from "./report_queries";

const CARD = "rounded-card border bg-panel px-3 py-2";

export function ReportSummary({ report }: { report: Report }) {
  const totals = report.columns.filter(({ name }) => typeof report.total[name] === "number");
  return (
    <div className="flex gap-3 max-lg:flex-col">
      {totals.length > 0 && report.name !== "latency" && (
        <section aria-label={text.totals} className={`${CARD} grow`}>
          <dl className="grid grid-cols-[repeat(auto-fill,minmax(104px,1fr))] gap-x-4 gap-y-2">
            {totals.map(({ name, title, unit }) => (
              <div key={name} className="flex flex-col-reverse justify-end" data-total={name}>
                <dt className="text-12 text-t2">{title}</dt>
                <dd className="text-16 font-semibold">{shown(report.total[name], unit)}</dd>
              </div>
            ))}
          </dl>
        </section>
      )}
      {(report.funnel["tasks"] ?? 0) > 0 && <Funnel funnel={report.funnel} />}
      {report.forecast && <Forecast forecast={report.forecast} />}
    </div>
  );
}

function Funnel({ funnel }: { funnel: Report["funnel"] }) {
  const all = funnel["tasks"] ?? 0;
  return (
    <section aria-label={text.funnel} className={`${CARD} min-w-64`}>
      <h2 className="text-12 font-semibold text-t2">{text.funnel}</h2>
      <ol className="mt-1 space-y-1">
        {Object.entries(funnel).map(([step, count]) => (
          <li key={step} className="text-12">
            <span className="flex justify-between gap-4"><span>{text.funnelSteps[step] ?? step}</span><span className="tabular-nums">{count.toLocaleString("en")}</span></span>
            <span aria-hidden="true" className="block h-1 rounded-full bg-hover"><span className="block h-1 rounded-full bg-accent" style={{ width: `${(100 * count) / all}%` }} /></span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Forecast({ forecast }: { forecast: NonNullable<Report["forecast"]> }) {
  return (
    <section aria-label={text.forecast} className={`${CARD} shrink-0 lg:max-w-64`}>
      <h2 className="text-12 font-semibold text-t2">{text.forecast}</h2>
      <p className="mt-1">{text.forecastOf(forecast.month, dollars(forecast.expected_usd))}</p>
      <p className="meta mt-1">{text.forecastBase(dollars(forecast.spent_usd), dollars(forecast.daily_mean_usd), forecast.base_days)}</p>
    </section>
  );
}

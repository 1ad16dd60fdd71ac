// Reports on outcomes, cost, reliability and latency: a chart and the table behind it, and budgets.
import { useEffect, useMemo } from "react";
import { Link } from "wouter";
import type { Schemas } from "../../api/http_client";
import { CopyButton } from "../../shared/copy_button";
import { ProblemLine } from "../../shared/error_message";
import { Icon } from "../../shared/icons";
import { setPageTitle } from "../../shared/page_title";
import { text } from "../../strings/analytics";
import { BudgetsAndAlerts } from "./budgets_and_alerts";
import { ReportChart } from "./report_chart";
import { ReportFilters } from "./report_filters";
import { type ReportRequest, REPORTS, type Report, labelOf, reportAddress, useReportRequest, useReport } from "./report_queries";
import { ReportSummary } from "./report_totals_funnel_and_forecast";
import { ReportTable, TimeTable } from "./report_table";

const LINK = "fade inline-flex h-7 items-center gap-1.5 rounded-row px-2 text-13 whitespace-nowrap text-t2 hover:bg-hover hover:text-t1 pointer-coarse:h-11";

export function AnalyticsPage({ user }: { user: Schemas["User"] }) {
  const request = useReportRequest();
  const shownName = request.isBudgets ? "budgets" : request.name;
  useEffect(() => {
    setPageTitle(`${text.reports[shownName] ?? ""} · ${text.title}`);
  }, [shownName]);
  return (
    <main className="flex h-full flex-col" aria-label={text.title}>
      <header className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b bg-panel px-3 py-2">
        <h1 className="text-14 font-semibold">{text.title}</h1>
        <nav aria-label={text.title} className="flex flex-wrap gap-1">
          {[...REPORTS, "budgets"].map((each) => <Link key={each} href={reportAddress(request.params, { report: each === "outcomes" ? "" : each, show: "", sort: "" })} {...(each === shownName ? { "aria-current": "page" as const } : {})} className={`${LINK} ${each === shownName ? "bg-selected text-t1" : ""}`}>{text.reports[each]}</Link>)}
        </nav>
        <Link href="/activity" className={`${LINK} sm:ml-auto`}><Icon name="log" size={14} />{text.activity.title}</Link>
      </header>
      <div className="min-h-0 grow overflow-auto p-3 pb-8">
        <p className="mb-3 text-t2">{text.about[shownName]}</p>
        {request.isBudgets ? <BudgetsAndAlerts user={user} /> : <ReportView request={request} />}
      </div>
    </main>
  );
}

function ReportView({ request }: { request: ReportRequest }) {
  const report = useReport(request);
  const labels = useMemo(() => new Map(report.data?.rows.map((row) => [row.key, labelOf(report.data.group, row)])), [report.data]);
  const file = (format: string) => `/api/v1/analytics/reports/${request.name}${format === "csv" ? ".csv" : ""}?${request.query}`;
  return (
    <div className="space-y-3">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <ReportFilters request={request} labels={labels} />
        <span className="flex flex-wrap items-center sm:ml-auto">
          <a href={file("csv")} download={`${request.name}.csv`} aria-label={text.download(text.csv)} className={LINK}><Icon name="download" size={14} />{text.csv}</a>
          <a href={file("json")} download={`${request.name}.json`} aria-label={text.download(text.json)} className={LINK}><Icon name="download" size={14} />{text.json}</a>
          <CopyButton text={() => location.href} label={text.link} />
        </span>
      </div>
      {report.isError && <ProblemLine error={report.error} retry={() => void report.refetch()}><Link href={reportAddress(new URLSearchParams(), { report: request.name })} className="text-link underline">{text.clear}</Link></ProblemLine>}
      {report.isPending && <div className="skeleton h-64" />}
      {report.data && <ReportContent report={report.data} request={request} />}
    </div>
  );
}

function ReportContent({ report, request }: { report: Report; request: ReportRequest }) {
  const column = report.columns.find(({ name }) => name === request.column) ?? report.columns[0];
  const isEmpty = report.rows.length === 0;
  return (
    <>
      <p role="status" className={report.behind > 0 ? "rounded-row bg-warn-tint px-2 py-1 text-12 text-warn" : "sr-only"}>{report.behind > 0 && text.behind(report.behind)}</p>
      {isEmpty && <Empty request={request} />}
      {(!isEmpty || report.forecast || (report.funnel["tasks"] ?? 0) > 0) && <ReportSummary report={report} />}
      {!isEmpty && column && <><ReportChart report={report} column={column} request={request} /><ReportTable report={report} request={request} /><TimeTable report={report} column={column} /></>}
    </>
  );
}

function Empty({ request }: { request: ReportRequest }) {
  return (
    <section className="rounded-card border bg-panel p-6 text-center">
      <h2 className="text-14 font-semibold">{text.empty.title}</h2>
      <p className="mx-auto mt-1 max-w-prose text-t2">{request.only.length > 0 ? text.empty.filtered : text.empty.teach}</p>
      <p className="mt-3 flex flex-wrap justify-center gap-4">
        <Link href="/new" className="text-link underline">{text.empty.start}</Link>
        <Link href={reportAddress(request.params, { since: "365d", until: "", step: "" })} className="text-link underline">{text.empty.longer}</Link>
        {request.only.length > 0 && <Link href={reportAddress(request.params, Object.fromEntries(request.only.map(([field]) => [field, ""])))} className="text-link underline">{text.clear}</Link>}
      </p>
      <p className="meta mt-3">{text.empty.commandAbout} <code>{text.empty.command}</code></p>
    </section>
  );
}

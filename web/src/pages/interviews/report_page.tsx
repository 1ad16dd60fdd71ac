// The report of an interview: facts with links to the moments that show them, for the screen, for paper and as PDF.
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { Link } from "wouter";
import { Problem, get } from "../../api/http_client";
import { ProblemLine } from "../../shared/error_message";
import { Button } from "../../shared/form_controls";
import { Icon } from "../../shared/icons";
import { SafeText } from "../../shared/safe_text";
import { setPageTitle } from "../../shared/page_title";
import { text as all } from "../../strings/interviews";
import { NotFound } from "../not_found";
import { HiddenResult } from "./assessor_side_panel";
import { type Interview, isOwnerSide, useInterview } from "./interview_api";
import { PhaseMark } from "./interview_list";
import { MarkCorrection } from "./mark_correction_form";
import { type Block, ReportContent } from "./report_content";
import { useRoom } from "./room_log";

const text = all.reportPage;
const BUTTON = "print-hide fade inline-flex h-7 items-center gap-1.5 rounded-row border border-edge bg-panel px-2.5 hover:bg-hover pointer-coarse:h-11";
type Report = { content: Block[]; marks: Record<string, string>; questions: { number: number; id: string; title: string }[] };

export function ReportPage({ id }: { id: string }) {
  const interview = useInterview(id);
  const { data } = interview;
  const title = data?.title ?? "";
  useEffect(() => {
    setPageTitle(text.title(title));
  }, [title]);
  if (interview.error instanceof Problem && (interview.error.status === 404 || interview.error.status === 403)) return <NotFound />;
  if (!data) return interview.isError ? <div className="p-4"><ProblemLine error={interview.error} retry={() => void interview.refetch()} /></div> : null;
  if (!isOwnerSide(data)) return <NotFound />;
  return (
    <main className="print-page h-full overflow-auto bg-panel">
      <div className="mx-auto max-w-4xl p-6 max-sm:p-3">
        <header>
          <p className="print-hide"><Link href={`/i/${id}/assess`} className="text-t2 hover:underline">‹ {text.facts}</Link></p>
          <div className="mt-1 flex flex-wrap items-center gap-3">
            <h1 className="text-20 font-semibold"><SafeText text={data.title} /></h1>
            <PhaseMark interview={data} />
            <span className="grow" />
            <a href={`/api/v1/interviews/${id}/report.pdf`} download={`report-${id}.pdf`} className={BUTTON}><Icon name="download" size={14} />{text.pdf}</a>
            <Button className="print-hide" icon="file" onClick={() => window.print()}>{text.print}</Button>
            <a href={`/api/v1/interviews/${id}/record`} className={BUTTON}><Icon name="download" size={14} />{text.record}</a>
            {data.sealed && <a href={`/api/v1/sessions/${id}/receipt`} download={`receipt-${id}.json`} className={BUTTON}><Icon name="key" size={14} />{all.over.receipt}</a>}
          </div>
        </header>
        <Facts interview={data} />
      </div>
    </main>
  );
}

function Facts({ interview }: { interview: Interview }) {
  const room = useRoom(interview.id);
  const report = useQuery({ queryKey: ["report", interview.id, room.view.seq], placeholderData: (before) => before, queryFn: () => get<Report>(`/interviews/${interview.id}/report`) });
  if (report.isError) return <div className="mt-4"><ProblemLine error={report.error} retry={() => void report.refetch()} /></div>;
  if (!report.data) return <p role="status" className="mt-4 text-t2">{text.reading}</p>;
  const { content, marks, questions } = report.data;
  const { hidden } = room.view;
  const questionTitles = [...new Map(questions.map((each) => [each.id, each.title]))];
  return (
    <>
      {questionTitles.length > 0 && <p className="print-hide mt-2 flex flex-wrap gap-x-4 gap-y-1">{questionTitles.map(([id, title]) => <Link key={id} href={`/interviews/compare/${encodeURIComponent(id)}`} className="text-link underline"><SafeText text={all.comparison.link(title)} /></Link>)}</p>}
      <ReportContent blocks={content.slice(1)} />
      {hidden.length > 0 && <section aria-label={text.hidden}><h2 className="mt-6 mb-2 border-b pb-1 text-16 font-semibold">{text.hidden}</h2><ol className="space-y-2">{hidden.map((run) => <HiddenResult key={run.seq} run={run} />)}</ol></section>}
      {questions.length > 0 && interview.phase !== "closed" && <MarkCorrection id={interview.id} questions={questions} marks={marks} saved={() => void report.refetch()} />}
    </>
  );
}

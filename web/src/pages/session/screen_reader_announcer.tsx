// Announces events to screen readers: at most one sentence in two seconds, the newest wins. Only open questions interrupt.
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { callSummary } from "../../display_format";
import type { Tool, View } from "../../fold/view_types";
import { showHidden } from "../../shared/safe_text";
import { strings } from "../../strings";
import { useSessionContext, useView } from "./session_context";
import { testsSummary } from "./tool_row";

const PAUSE_MS = 2000;

/** The last edit or test of the run at work. */
function newest(view: View): string {
  const row = view.rows.findLast((each): each is Tool => each.kind === "tool" && each.runId === view.run && (each.files.length > 0 || each.tests?.running === false));
  if (row?.tests) return strings.speech.tests(testsSummary(row.tests));
  return row ? strings.speech.edited(row.files.map((file) => file.path).join(", ")) : strings.speech.working(view.persona);
}

export function Announcer() {
  const { stream } = useSessionContext();
  const view = useView();
  const [announcement, setAnnouncement] = useState("");
  const announcedAt = useRef(0);
  const tests = view.tests && !view.tests.running ? testsSummary(view.tests) : "";
  const hasRun = view.rows.some((row) => row.kind === "prompt");
  const sentence = view.state === "running" ? newest(view) : view.state === "idle" ? (hasRun ? strings.speech.done(tests) : "") : strings.state[view.state];
  useLayoutEffect(() => {
    if (announcement) announcedAt.current = performance.now(); // in the page: a busy browser gets there later than the timer
  }, [announcement]);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const announce = () => {
      const wait = PAUSE_MS - (performance.now() - announcedAt.current);
      if (wait > 0) timer = setTimeout(announce, wait);
      else setAnnouncement(sentence);
    };
    timer = setTimeout(announce, 0);
    return () => clearTimeout(timer);
  }, [sentence]);
  const asking = stream.row(view.pending[0] ?? "") as Tool | undefined;
  const urgent = asking?.approval ? strings.speech.approval(speechOfCall(asking.tool, asking.approval.summary)) : asking?.question ? strings.speech.question(asking.question.text) : "";
  return (
    <>
      <div className="sr-only" aria-live="polite">{showHidden(announcement)}</div>
      <div className="sr-only" aria-live="assertive">{showHidden(urgent)}</div>
    </>
  );
}

const speechOfCall = (tool: string, summary: string) => (summary.startsWith("{") ? callSummary(tool, summary) : `${tool} ${summary}`);

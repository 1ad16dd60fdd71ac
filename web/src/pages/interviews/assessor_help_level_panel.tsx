// The struggle score, the level of help, and proposals to change it. Nothing changes silently.
import { useState } from "react";
import { ProblemLine } from "../../shared/error_message";
import { Button, Field } from "../../shared/form_controls";
import { SafeText } from "../../shared/safe_text";
import { text as all } from "../../strings/interviews";
import { type Interview, type Level, useStep } from "./interview_api";
import type { RoomLog, Struggle } from "./room_log";

const text = all.assessor;
const HIGH = 0.6;
const WIDTH = 120;
const HEIGHT = 24;

export function HelpPanel({ interview, room }: { interview: Interview; room: RoomLog }) {
  const step = useStep(interview.id);
  const [level, setLevel] = useState<Level | "">("");
  const [reason, setReason] = useState("");
  const [declining, setDeclining] = useState(false);
  const { question, proposal, offer, phase } = interview;
  const isOpen = phase === "running" || phase === "paused";
  if (!question || !interview.ai || !isOpen) return null; // after the end it is in the report
  const nameOf = (each: string) => all.levels[each] ?? each;
  const change = async () => {
    if (level && (await step.take("level", { level, reason }))) setLevel("");
  };
  const decline = async () => {
    if (!proposal || !(await step.take(`proposals/${proposal.number}`, { accept: false }))) return;
    if (reason.trim()) await step.take("notes", { text: text.declined(nameOf(proposal.level), reason.trim()) });
    setDeclining(false);
    setReason("");
  };
  return (
    <div className="shrink-0 space-y-2 border-b p-3">
      <StruggleScore struggle={room.view.struggle} scores={room.view.scores} />
      <div role="group" aria-label={all.level} className="flex items-center gap-2">
        <span className="text-12 text-t2">{all.level}</span>
        <span className="flex overflow-hidden rounded-row border border-edge">
          {question.levels.map((each) => <button key={each} type="button" aria-pressed={each === question.level} title={all.levelsAbout[each]} onClick={() => { setReason(""); setLevel(each === question.level ? "" : each); }} className={`inset-focus h-6 px-2 text-12 pointer-coarse:h-11 ${each === question.level ? "bg-accent font-semibold text-on-accent" : each === level ? "bg-selected" : "bg-panel hover:bg-hover"}`}>{nameOf(each)}</button>)}
        </span>
      </div>
      {level && (
        <form onSubmit={(event) => { event.preventDefault(); void change(); }} className="flex flex-wrap gap-2">
          <Field autoFocus small value={reason} maxLength={1000} onChange={(event) => setReason(event.target.value)} aria-label={text.reasonPrivate} placeholder={text.reasonPrivate} className="min-w-32 grow" />
          <Button type="submit" small kind="primary" disabled={step.busy !== ""}>{text.switchTo(nameOf(level))}</Button>
          <Button small kind="quiet" onClick={() => setLevel("")}>{all.cancel}</Button>
        </form>
      )}
      <div role="status">
        {proposal && (
          <div className="rounded-card bg-warn-tint p-2 text-warn">
            <p><span className="font-semibold">{text.proposal(nameOf(proposal.level))}</span> <SafeText text={room.view.reasons.get(proposal.number) ?? ""} /></p>
            <div className="mt-1 flex flex-wrap gap-2">
              {!declining && <Button small disabled={step.busy !== ""} onClick={() => void step.take(`proposals/${proposal.number}`, { accept: true })}>{text.accept}</Button>}
              {declining && <Field small autoFocus value={reason} maxLength={1000} onChange={(event) => setReason(event.target.value)} onKeyDown={(event) => { if (event.key === "Enter") void decline(); }} aria-label={text.reasonPrivate} placeholder={text.reasonPrivate} className="min-w-32 grow" />}
              <Button small kind={declining ? "plain" : "quiet"} disabled={step.busy !== ""} onClick={() => (declining ? void decline() : (setReason(""), setDeclining(true)))}>{text.decline}</Button>
            </div>
          </div>
        )}
        {offer && <p className="text-12 text-agent">{text.offer(offer.kind)}</p>}
      </div>
      {step.error !== null && <ProblemLine error={step.error} />}
    </div>
  );
}

/** The newest score, its parts, and the line of the last ones. */
function StruggleScore({ struggle, scores }: { struggle: Struggle | null; scores: Struggle[] }) {
  const shown = scores.slice(-60);
  const points = shown.map((each, index) => `${shown.length > 1 ? (index / (shown.length - 1)) * WIDTH : 0},${HEIGHT - each.score * HEIGHT}`).join(" ");
  return (
    <div title={text.struggleAbout}>
      <div className="flex items-center gap-2">
        <span className="text-12 text-t2">{text.struggle}</span>
        <span className={`font-semibold ${struggle && struggle.score >= HIGH ? "text-warn" : ""}`} data-score>{struggle ? struggle.score.toFixed(2) : <span className="text-12 font-normal text-t3">{text.noScore}</span>}</span>
        {shown.length > 1 && (
          <svg width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true" className="text-info">
            <line x1="0" x2={WIDTH} y1={HEIGHT - HIGH * HEIGHT} y2={HEIGHT - HIGH * HEIGHT} stroke="var(--line)" />
            <polyline points={points} fill="none" stroke="currentColor" strokeWidth="1.5" />
          </svg>
        )}
      </div>
      {struggle && <p className="meta">{Object.entries(text.parts).flatMap(([name, label]) => (struggle.parts[name] ? [`${label} ${struggle.parts[name].toFixed(2)}`] : [])).join(" · ") || text.struggleAbout}</p>}
    </div>
  );
}

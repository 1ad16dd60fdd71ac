// An assessor's own mark in place of a computed one, with the reason.
import { useState } from "react";
import { ProblemLine } from "../../shared/error_message";
import { Button, Field } from "../../shared/form_controls";
import { SafeText } from "../../shared/safe_text";
import { text as all } from "../../strings/interviews";
import { useStep } from "./interview_api";

const text = all.reportPage;
const POINTS = [0, 1, 2];
const SELECT = "h-7 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1 pointer-coarse:h-11";

export function MarkCorrection({ id, questions, marks, saved }: { id: string; questions: { number: number; title: string }[]; marks: Record<string, string>; saved: () => void }) {
  const step = useStep(id);
  const [number, setNumber] = useState(questions[0]?.number ?? 1);
  const [mark, setMark] = useState(Object.keys(marks)[0] ?? "");
  const [points, setPoints] = useState("");
  const [comment, setComment] = useState("");
  const save = async () => {
    if (await step.take("marks", { number, mark, points: points === "" ? null : Number(points), comment })) {
      setComment("");
      saved();
    }
  };
  return (
    <form onSubmit={(event) => { event.preventDefault(); void save(); }} className="print-hide mt-6 space-y-2">
      <h2 className="border-b pb-1 text-16 font-semibold">{text.correct}</h2>
      <p className="text-t2">{text.correctAbout}</p>
      <div className="flex flex-wrap gap-2">
        <select aria-label={all.question} value={number} onChange={(event) => setNumber(Number(event.target.value))} className={SELECT}>{questions.map((each) => <option key={each.number} value={each.number}>{each.number}: {each.title}</option>)}</select>
        <select aria-label={text.mark} value={mark} onChange={(event) => setMark(event.target.value)} className={SELECT}>{Object.keys(marks).map((each) => <option key={each} value={each}>{each}</option>)}</select>
        <select aria-label={text.points} value={points} onChange={(event) => setPoints(event.target.value)} className={SELECT}><option value="">{text.computed}</option>{POINTS.map((each) => <option key={each} value={each}>{each}</option>)}</select>
        <Field small value={comment} maxLength={2000} onChange={(event) => setComment(event.target.value)} aria-label={text.comment} placeholder={text.comment} className="min-w-40 grow" />
        <Button type="submit" disabled={step.busy !== ""}>{text.saveMark}</Button>
      </div>
      <p className="text-12 text-t2"><SafeText text={marks[mark] ?? ""} /></p>
      {step.error !== null && <ProblemLine error={step.error} />}
    </form>
  );
}

// The rubric of the question, rated from 1 to 5 with a comment. The ratings of others are shown beside the user's own.
import { useState } from "react";
import { ProblemLine } from "../../shared/error_message";
import { Button, Field } from "../../shared/form_controls";
import { SafeText } from "../../shared/safe_text";
import { text as all } from "../../strings/interviews";
import { type Criterion, type Interview, type QuestionRubric, nameIn, useRubrics, useStep } from "./interview_api";
import type { Rating, RoomLog } from "./room_log";

const text = all.assessor;
const POINTS = [1, 2, 3, 4, 5];
type Me = { id: string; name: string };

export function RatingForm({ interview, room, me }: { interview: Interview; room: RoomLog; me: Me }) {
  const { question } = interview;
  const [number, setNumber] = useState(question?.number ?? 1);
  const rubrics = useRubrics(interview.id, (question?.number ?? 0) > 1);
  const rated: QuestionRubric | undefined = number === question?.number ? question : rubrics.data?.find((each) => each.number === number);
  if (!question?.rubric.length && !rubrics.data?.length) return <p className="p-3 text-t2">{text.noRubric}</p>;
  const ratings = [...room.view.ratings.values()].filter((each) => each.number === number);
  const nameOf = nameIn(interview, me, text.unknownAssessor);
  return (
    <div className="h-full space-y-4 overflow-auto p-3">
      {question && question.number > 1 && (
        <select aria-label={all.question} value={number} onChange={(event) => setNumber(Number(event.target.value))} className="h-7 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1 pointer-coarse:h-11">
          {Array.from({ length: question.number }, (_, index) => <option key={index} value={index + 1}>{all.questionOf(index + 1, interview.question_count)}</option>)}
        </select>
      )}
      {rubrics.isError && <ProblemLine error={rubrics.error} retry={() => void rubrics.refetch()} />}
      {rated && <p className="text-12 text-t2">{all.questionOf(number, interview.question_count)} · <SafeText text={rated.title} /></p>}
      {rated?.rubric.map((each) => {
        const mine = ratings.find((rating) => rating.by === me.id && rating.criterion === each.name);
        const others = ratings.filter((rating) => rating.by !== me.id && rating.criterion === each.name);
        return <Rated key={`${number}/${each.name}`} interview={interview} number={number} criterion={each} mine={mine} others={others} nameOf={nameOf} />;
      })}
    </div>
  );
}

type RatedProps = { interview: Interview; number: number; criterion: Criterion; mine: Rating | undefined; others: Rating[]; nameOf: (by: string) => string };

function Rated({ interview, number, criterion, mine, others, nameOf }: RatedProps) {
  const step = useStep(interview.id);
  const [comment, setComment] = useState<string | null>(null);
  const isClosed = interview.phase === "closed";
  const typed = comment ?? mine?.comment ?? "";
  const rate = async (points: number | null) => {
    if (await step.take("ratings", { number, criterion: criterion.name, points, comment: points === null ? "" : typed })) setComment(null);
  };
  return (
    <fieldset disabled={isClosed}>
      <legend className="font-semibold"><SafeText text={criterion.name} /></legend>
      <p className="text-12 text-t2"><SafeText text={criterion.description} /></p>
      <div className="mt-1 flex items-center gap-1">
        {POINTS.map((points) => <button key={points} type="button" aria-pressed={mine?.points === points} aria-label={`${criterion.name}: ${text.points(points)}`} title={text.points(points)} onClick={() => void rate(points)} className={`size-7 rounded-row border text-12 pointer-coarse:size-11 ${mine?.points === points ? "border-accent bg-accent font-semibold text-on-accent" : "border-edge bg-panel hover:bg-hover"}`}>{points}</button>)}
        {mine && <Button small kind="quiet" onClick={() => void rate(null)}>{text.unrate}</Button>}
        {mine && <span role="status" className="text-12 text-ok">✓ {text.saved}</span>}
      </div>
      {mine && (
        <form onSubmit={(event) => { event.preventDefault(); void rate(mine.points); }} className="mt-1 flex gap-2">
          <Field small value={typed} maxLength={20_000} onChange={(event) => setComment(event.target.value)} aria-label={`${text.comment}: ${criterion.name}`} placeholder={text.comment} className="grow" />
          {comment !== null && comment !== mine.comment && <Button type="submit" small>{text.save}</Button>}
        </form>
      )}
      {others.map((each) => <p key={each.by} className="mt-1 text-12 text-t2"><SafeText text={nameOf(each.by)} />: {each.points}{each.comment && <> · <SafeText text={each.comment} /></>}</p>)}
      {step.error !== null && <ProblemLine error={step.error} />}
    </fieldset>
  );
}

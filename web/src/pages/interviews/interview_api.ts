// Interviews as the server sends them, and the steps that people take in them.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { get, post } from "../../api/http_client";
import { strings } from "../../strings";
import { text } from "../../strings/interviews";
import { startingFileQuery } from "./first_opened_file";

export const languageName = (language: string) => text.languages[language] ?? language;

export type Phase = "planned" | "running" | "paused" | "ended" | "closed";
export type Level = "consultant" | "pair" | "copilot";
export type InterviewRole = "owner" | "assessor" | "candidate" | "observer";
export type Criterion = { name: string; description: string };
export type ClockState = { now_ms: number; runs: boolean; elapsed_ms: number; remaining_ms: number; question_remaining_ms: number | null; credited_ms: number; offline_since_ms: number | null };
export type OpenQuestion = { number: number; id: string; title: string; statement: string; language: string; languages: string[]; level: Level | ""; levels: Level[]; workspace: string; minutes: number | null; rubric: Criterion[] };
export type Workspace = { session: string; number: number; question: string; language: string; current: boolean };
export type Plan = { title: string; questions: { id: string; language: string | null; minutes: number | null }[]; minutes: number | null; extra_time_percent: number; accommodations: string; expectations: string; max_credit_minutes: number };
export type Interview = {
  id: string; title: string; phase: Phase; role: InterviewRole; attended: boolean; ai: boolean; company: string; job_role: string;
  owner: string; owner_name: string; candidate: string; candidate_name: string; question_count: number; question: OpenQuestion | null; clock: ClockState;
  consent: string; consented: boolean; proposal: { number: number; level: Level } | null; offer: { number: number; kind: string } | null;
  created_ms: number; begun_ms: number; ended_ms: number; sealed: boolean; workspaces: Workspace[]; plan: Plan | null;
  people: { id: string; name: string; role: string }[];
};
export type Check = { name: string; ok: boolean; message: string; required: boolean };
export type BankQuestion = { id: string; title: string; minutes: number; languages: string[]; levels: Level[]; problem: string };

export const LEVELS: Level[] = ["consultant", "pair", "copilot"];
const LIST_MS = 5000;
const ROOM_MS = 15_000;

export const useInterviews = () =>
  useQuery({ queryKey: ["interviews"], queryFn: async () => (await get<{ items: Interview[] }>("/interviews?limit=100")).items, refetchInterval: LIST_MS });

export const useInterview = (id: string) => useQuery({ queryKey: ["interview", id], queryFn: () => get<Interview>(`/interviews/${id}`), refetchInterval: ROOM_MS });

export const useQuestionBank = () => useQuery({ queryKey: ["question-bank"], queryFn: async () => (await get<{ items: BankQuestion[] }>("/questions")).items, staleTime: 60_000 });

export type QuestionRubric = { number: number; title: string; rubric: Criterion[] };

/** The rubrics of all questions, for ratings of earlier ones. */
export const useRubrics = (id: string, enabled: boolean) =>
  useQuery({ queryKey: ["rubrics", id], enabled, staleTime: 60_000, queryFn: async () => (await get<{ questions: QuestionRubric[] }>(`/interviews/${id}/report`)).questions });

export const isOwnerSide = (interview: Interview) => interview.role === "owner" || interview.role === "assessor";

/** Take a step of the interview. The response is shown at once; a refusal is shown until the next step. */
export function useStep(id: string) {
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState("");
  const take = useCallback(async (what: string, body: unknown = {}): Promise<boolean> => {
    setBusy(what);
    setError(null);
    try {
      const answer = await post<Partial<Interview> | undefined>(`/interviews/${id}/${what}`, body);
      if (answer && "phase" in answer) { // other answers have a `question` that is no workspace
        if (answer.question) void queries.prefetchQuery(startingFileQuery(answer.question.workspace)); // while the room is drawn
        queries.setQueryData(["interview", id], answer);
      }
      void queries.invalidateQueries({ queryKey: ["interviews"] });
      return true;
    } catch (failed) {
      setError(failed);
      void queries.invalidateQueries({ queryKey: ["interview", id] }); // somebody else may have taken the step
      return false;
    } finally {
      setBusy("");
    }
  }, [id, queries]);
  return { take, error, busy, clear: () => setError(null) };
}

/** A name for the author of an event of the room. */
export function nameIn(interview: Interview | undefined, me: { id: string; name: string }, unknown: string): (by: string) => string {
  const names = new Map(interview?.people.map((each) => [each.id, each.name]));
  if (interview) {
    names.set(interview.owner, interview.owner_name);
    if (interview.candidate) names.set(interview.candidate, interview.candidate_name);
  }
  names.set(me.id, me.name);
  return (by) => names.get(by) ?? unknown;
}

/** The same for the author of something in a workspace. It changes only with the people, as whole pages are drawn with it. */
export function useNameOf(interview: Interview, me: { id: string; name: string }): (by: string) => string {
  const people = JSON.stringify([...interview.people, me]);
  return useMemo(() => {
    const names = new Map((JSON.parse(people) as { id: string; name: string }[]).map((each) => [each.id, each.name]));
    return (by) => (by === "agent" ? strings.session.agent : by === "hutch" || !by ? strings.session.hutch : names.get(by) || strings.session.somebody);
  }, [people]);
}

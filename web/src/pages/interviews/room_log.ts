// The log of an interview's room, followed over one socket, and its values for the pages.
import { useEffect, useState, useSyncExternalStore } from "react";
import { useQueryClient } from "@tanstack/react-query";
import type { AnyEntry } from "../../fold/view_types";

type Moment = { seq: number; atMs: number; elapsedMs: number };
export type RoomNote = Moment & { by: string; text: string; workspace: string; workspaceSeq: number };
export type RoomMessage = Moment & { by: string; text: string; isPrivate: boolean };
export type Rating = Moment & { by: string; number: number; criterion: string; points: number; comment: string };
export type Struggle = Moment & { score: number; parts: Record<string, number>; policy: string };
export type HiddenCase = { name: string; ok: boolean; detail: string };
export type HiddenRun = Moment & { number: number; question: string; language: string; workspace: string; workspaceSeq: number; passed: number; total: number; reason: string; cases: HiddenCase[] };
export type ClientEvent = Moment & { type: string; chars: number; where: string; workspace: string };
export type HistoryItem = Moment & { type: string; by: string; detail: string; workspace: string };
export type RoomView = {
  seq: number; notes: RoomNote[]; messages: RoomMessage[]; ratings: Map<string, Rating>; struggle: Struggle | null; scores: Struggle[];
  hidden: HiddenRun[]; counted: Map<number, { passed: number; total: number }>; clients: ClientEvent[]; history: HistoryItem[];
  reasons: Map<number, string>; pausedReason: string; head: string;
};

export const emptyRoom = (): RoomView => ({ seq: 0, notes: [], messages: [], ratings: new Map(), struggle: null, scores: [], hidden: [], counted: new Map(), clients: [], history: [], reasons: new Map(), pausedReason: "", head: "" });

const CLIENT_EVENTS = new Set(["paste", "copy", "blur", "focus", "visibility", "offline", "online"]);
const HISTORY = new Set(["candidate.joined", "lobby.checked", "consent.given", "interview.invited", "interview.begun", "question.opened", "language.switched", "interview.paused", "interview.resumed", "level.proposed", "level.declined", "level.changed", "help.offered", "help.accepted", "help.dismissed", "time.extended", "candidate.disconnected", "candidate.reconnected", "hidden_tests.run", "code.measured", "interview.ended", "interview.sealed"]);

type Fields = Record<string, unknown>;
const textOf = (fields: Fields, name: string) => (typeof fields[name] === "string" ? fields[name] : "");
const numberOf = (fields: Fields, name: string) => (typeof fields[name] === "number" ? fields[name] : 0);

/** Add one entry. Entries that one may not see have only a type. */
export function foldRoom(view: RoomView, { seq, at_ms, event }: AnyEntry): void {
  if (seq <= view.seq) return;
  view.seq = seq;
  if (event["withheld"]) return;
  const moment = { seq, atMs: at_ms, elapsedMs: numberOf(event, "elapsed_ms") };
  const by = textOf(event, "by");
  const number = numberOf(event, "number");
  const workspace = textOf(event, "workspace");
  switch (event.type) {
    case "note.written":
      view.notes = [...view.notes, { ...moment, by, text: textOf(event, "text"), workspace, workspaceSeq: numberOf(event, "seq") }];
      break;
    case "message.sent":
      view.messages = [...view.messages, { ...moment, by, text: textOf(event, "text"), isPrivate: Boolean(event["audience"]) }];
      break;
    case "rating.given": {
      const key = `${number}/${textOf(event, "criterion")}/${by}`;
      view.ratings = new Map(view.ratings);
      if (typeof event["points"] === "number") view.ratings.set(key, { ...moment, by, number, criterion: textOf(event, "criterion"), points: event["points"], comment: textOf(event, "comment") });
      else view.ratings.delete(key);
      break;
    }
    case "struggle.measured":
      view.struggle = { ...moment, score: numberOf(event, "score"), parts: (event["parts"] ?? {}) as Record<string, number>, policy: textOf(event, "policy") };
      view.scores = [...view.scores, view.struggle];
      break;
    case "hidden_tests.run":
      view.hidden = [...view.hidden, { ...moment, number, question: textOf(event, "question"), language: textOf(event, "language"), workspace, workspaceSeq: numberOf(event, "seq"), passed: numberOf(event, "passed"), total: numberOf(event, "total"), reason: textOf(event, "reason"), cases: casesOf(event["cases"]) }];
      break;
    case "hidden_tests.counted":
      view.counted = new Map(view.counted).set(number, { passed: numberOf(event, "passed"), total: numberOf(event, "total") });
      break;
    case "client.reported":
      view.clients = [...view.clients, ...clientEvents(event, moment, workspace)];
      break;
    case "level.proposed":
      view.reasons = new Map(view.reasons).set(numberOf(event, "proposal"), textOf(event, "reason"));
      break;
    case "help.offered":
      view.reasons = new Map(view.reasons).set(numberOf(event, "offer"), textOf(event, "reason"));
      break;
    case "interview.paused":
      view.pausedReason = textOf(event, "reason");
      break;
  }
  if (HISTORY.has(event.type)) view.history = [...view.history, { ...moment, type: event.type, by, detail: detailOf(event), workspace }];
}

function casesOf(cases: unknown): HiddenCase[] {
  if (!Array.isArray(cases)) return [];
  return (cases as Fields[]).map((each) => ({ name: textOf(each, "name"), ok: each["ok"] === true || each["status"] === "passed" || each["outcome"] === "passed", detail: textOf(each, "message") || textOf(each, "detail") || textOf(each, "reason") || textOf(each, "error") }));
}

function clientEvents(event: Fields, moment: Moment, workspace: string): ClientEvent[] {
  const events = Array.isArray(event["events"]) ? (event["events"] as Fields[]) : [];
  return events.filter((each) => CLIENT_EVENTS.has(textOf(each, "type"))).map((each) => {
    const data = (each["data"] ?? {}) as Fields;
    const claimedMs = Date.parse(textOf(each, "timestamp"));
    return { ...moment, atMs: Number.isFinite(claimedMs) ? Math.min(claimedMs, moment.atMs) : moment.atMs, type: textOf(each, "type"), chars: numberOf(data, "chars"), where: textOf(data, "where"), workspace };
  });
}

/** The details of an event of the room, besides its kind. */
export function detailOf(event: { type: string } & Fields): string {
  switch (event.type) {
    case "question.opened": return [textOf(event, "title") || textOf(event, "question"), textOf(event, "language")].filter(Boolean).join(" · ");
    case "language.switched": return `${textOf(event, "before")} → ${textOf(event, "language")}`;
    case "level.changed": return [`${textOf(event, "before")} → ${textOf(event, "level")}`, textOf(event, "reason")].filter(Boolean).join(" · ");
    case "level.proposed": return [textOf(event, "level"), textOf(event, "reason")].filter(Boolean).join(" · ");
    case "help.offered": case "help.accepted": case "help.dismissed": return textOf(event, "kind").replaceAll("_", " ");
    case "time.extended": return [`+${numberOf(event, "minutes")} min`, event["of"] === "question" ? "for the question" : "", textOf(event, "reason")].filter(Boolean).join(" · ");
    case "candidate.reconnected": return `${Math.round(numberOf(event, "offline_ms") / 1000)} s offline, ${Math.round(numberOf(event, "credited_ms") / 1000)} s given back`;
    case "hidden_tests.run": return `${numberOf(event, "passed")} of ${numberOf(event, "total")}`;
    case "interview.ended": return [textOf(event, "cause"), textOf(event, "reason")].filter(Boolean).join(" · ");
    case "interview.invited": return textOf(event, "role");
    case "note.written": return textOf(event, "text");
    case "rating.given": return `${textOf(event, "criterion")} ${numberOf(event, "points") || "–"}`;
    case "mark.overridden": return textOf(event, "mark");
    case "lobby.checked": return `${event["ok"] === true ? "✓" : "✗"} ${failedChecks(event)}`.trim();
    default: return textOf(event, "reason");
  }
}

/** The failed parts of the system check in the lobby, with the reasons. */
function failedChecks(event: Fields): string {
  const checks = Array.isArray(event["checks"]) ? (event["checks"] as Fields[]) : [];
  return checks.filter((each) => each["ok"] !== true).map((each) => `${textOf(each, "name")}: ${textOf(each, "message")}`).join(" ");
}

const RETRY_MS = [500, 1000, 2000, 4000, 8000];
/** After these events the interview itself is asked again. */
const RENEWS = /^(candidate|interview|question|language|level|help|consent|time|hidden_tests)\./;

export class RoomLog {
  view = emptyRoom();
  version = 0;
  isLive = false;
  isLoaded = false;
  private listeners = new Set<() => void>();

  constructor(readonly id: string, private readonly renew: () => void) {}

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  private notify(): void {
    this.version += 1;
    for (const each of this.listeners) each();
  }

  follow(): () => void {
    let isClosed = false;
    let attempts = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let gathering: ReturnType<typeof setTimeout> | undefined;
    let socket: WebSocket | undefined;
    let shouldRenew = false;
    const later = () => {
      gathering ??= setTimeout(() => {
        gathering = undefined;
        this.isLoaded = true;
        if (shouldRenew) this.renew();
        shouldRenew = false;
        this.notify();
      }, 50);
    };
    const connect = () => {
      const scheme = location.protocol === "https:" ? "wss" : "ws";
      socket = new WebSocket(`${scheme}://${location.host}/api/v1/sessions/${this.id}/events/socket?after=${this.view.seq}`);
      socket.onopen = () => {
        attempts = 0;
        this.isLive = true;
        shouldRenew = true; // what changed meanwhile
        later();
      };
      socket.onmessage = (message) => {
        const frame = JSON.parse(String(message.data)) as { type: string } & AnyEntry;
        if (frame.type !== "entry") return later();
        foldRoom(this.view, frame);
        if (RENEWS.test(frame.event.type)) shouldRenew = true;
        later();
      };
      socket.onclose = (event) => {
        this.isLive = false;
        later();
        if (isClosed || event.code === 1000) return;
        timer = setTimeout(connect, RETRY_MS[Math.min(attempts++, RETRY_MS.length - 1)]);
      };
    };
    const wake = () => {
      if (socket?.readyState !== WebSocket.CLOSED) return;
      clearTimeout(timer);
      connect();
    };
    connect();
    window.addEventListener("online", wake);
    return () => {
      isClosed = true;
      clearTimeout(timer);
      clearTimeout(gathering);
      window.removeEventListener("online", wake);
      socket?.close();
    };
  }
}

/** The room, followed while the page is open. */
export function useRoom(id: string): RoomLog {
  const queries = useQueryClient();
  const [log] = useState(() => new RoomLog(id, () => void queries.invalidateQueries({ queryKey: ["interview", id] })));
  useEffect(() => log.follow(), [log]);
  useSyncExternalStore(log.subscribe, () => log.version);
  return log;
}

// The sessions of the server with their costs, and all calls and questions that wait for a person. Kept up to date.
import * as vscode from "vscode";
import { Problem, type Schemas, type SessionRow } from "../../../clients/typescript/src/index";
import type { Connection } from "./connection";
import { BEHIND_MS, COST_INTERVAL_MS, MAX_SESSIONS } from "./limits";
import { SessionChanges } from "./session_change_stream";

export type Approval = { kind: "approval"; session: string; callId: string; tool: string; text: string; rule: string; covers: string[] };
export type Question = { kind: "question"; session: string; callId: string; text: string; choices: string[] };
export type Waiting = Approval | Question;
export type Listed = { row: SessionRow; costUsd: number | null; unpriced: number; waiting: Waiting[] };
type Asked = Schemas["ApprovalRequested"] | Schemas["QuestionAsked"] | Schemas["ApprovalAnswered"] | Schemas["QuestionAnswered"] | Schemas["RunEnded"];

const BUSY: readonly SessionRow["state"][] = ["queued", "starting", "running", "waiting"];
const OPEN: readonly SessionRow["state"][] = [...BUSY, "idle", "paused", "parked"];
const WAITING_KINDS = ["approval.requested", "approval.answered", "question.asked", "question.answered", "run.ended"];
const MAX_PAGES = 5;

export const isBusy = (row: SessionRow): boolean => BUSY.includes(row.state);

export class SessionList implements vscode.Disposable {
  sessions: readonly Listed[] = [];
  hasMore = false;
  problem: unknown = null;
  private changes: SessionChanges | null = null;
  private refreshing: Promise<void> | null = null;
  private isStale = false;
  private isBehind = false; // events that the costs do not include yet
  private timer: NodeJS.Timeout | undefined;
  private readonly known = new Set<string>(); // of what waits
  private readonly changed = new vscode.EventEmitter<void>();
  private readonly asked = new vscode.EventEmitter<Waiting>();
  private readonly subscription: vscode.Disposable;
  readonly onDidChange = this.changed.event;
  readonly onDidAsk = this.asked.event; // once for each

  constructor(private readonly connection: Connection) {
    this.subscription = connection.onDidChange(() => this.follow());
  }

  /** What waits in the user's own sessions. Owners of a server see those of others too. */
  get waiting(): Waiting[] {
    const { user } = this.connection;
    return this.sessions.filter((each) => each.row.owner === user?.id).flatMap((each) => each.waiting);
  }

  find(id: string): Listed | undefined {
    return this.sessions.find((each) => each.row.id === id);
  }

  /** Request everything anew. Requests that come meanwhile are one more. */
  async refresh(): Promise<void> {
    this.isStale = true;
    this.refreshing ??= this.refreshUntilFresh().finally(() => {
      this.refreshing = null;
    });
    return this.refreshing;
  }

  dispose(): void {
    this.changes?.close();
    clearTimeout(this.timer);
    this.subscription.dispose();
    this.changed.dispose();
    this.asked.dispose();
  }

  private follow(): void {
    this.changes?.close();
    this.changes = null;
    if (this.connection.state === "connected") {
      this.changes = new SessionChanges(this.connection.socket("/api/graphql"), () => void this.refresh());
      return;
    }
    this.sessions = [];
    this.changed.fire();
  }

  private async refreshUntilFresh(): Promise<void> {
    clearTimeout(this.timer);
    while (this.isStale && this.connection.state === "connected") {
      this.isStale = false;
      try {
        await this.read();
        this.problem = null;
      } catch (error) {
        this.problem = error;
      }
      this.changed.fire();
    }
    // Costs grow without a change of state, and follow the log after a moment.
    const isGrowing = this.isBehind || this.sessions.some((each) => isBusy(each.row));
    if (isGrowing) this.timer = setTimeout(() => void this.refresh(), this.isBehind ? BEHIND_MS : COST_INTERVAL_MS);
  }

  private async read(): Promise<void> {
    const showEnded = vscode.workspace.getConfiguration("hutch").get<boolean>("showEnded", false);
    const states = showEnded ? "" : OPEN.map((state) => `&state=${state}`).join("");
    const [page, usage] = await Promise.all([
      this.connection.request<Schemas["SessionPage"]>("GET", `/sessions?interviews=false&limit=${MAX_SESSIONS}${states}`),
      this.connection.request<Schemas["UsagePage"]>("GET", "/usage?group=session&limit=200"),
    ]);
    const costs = new Map(usage.items.map((each) => [each.key, each]));
    const sessions = await Promise.all(page.items.map(async (row): Promise<Listed> => {
      const cost = costs.get(row.id);
      // What a helper asks is asked in the session at the root too.
      const waiting = row.state === "waiting" && !row.parent ? await this.waitingIn(row.id) : [];
      return { row, costUsd: cost?.cost_usd ?? null, unpriced: cost?.unpriced ?? 0, waiting };
    }));
    this.sessions = sessions;
    this.isBehind = usage.behind > 0;
    this.hasMore = page.next !== null;
    for (const each of this.waiting) {
      const key = `${each.session} ${each.callId}`;
      if (!this.known.has(key)) this.asked.fire(each);
      this.known.add(key);
    }
  }

  /** What the run of a session waits for: asked, and not answered. */
  private async waitingIn(session: string): Promise<Waiting[]> {
    const answered = new Set<string>();
    const found: Waiting[] = [];
    let cursor = "";
    for (let pages = 0; pages < MAX_PAGES; pages += 1) {
      const kinds = WAITING_KINDS.map((kind) => `&kind=${kind}`).join("");
      let page: Schemas["EventSearchPage"];
      try {
        page = await this.connection.request("GET", `/sessions/${session}/events/search?order=newest&limit=200${kinds}${cursor}`);
      } catch (error) {
        if (error instanceof Problem && error.status === 404) return []; // removed meanwhile
        throw error;
      }
      for (const entry of page.items) {
        const event = entry.event as Asked;
        if (event.type === "run.ended") return found.reverse();
        if (event.type === "approval.answered" || event.type === "question.answered") answered.add(event.call_id);
        else if (!answered.has(event.call_id)) found.push(waitingOf(session, event));
      }
      if (page.next === null) break;
      cursor = `&cursor=${page.next}`;
    }
    return found.reverse();
  }
}

function waitingOf(session: string, event: Schemas["ApprovalRequested"] | Schemas["QuestionAsked"]): Waiting {
  const callId = event.call_id;
  if (event.type === "question.asked") return { kind: "question", session, callId, text: event.text, choices: [...(event.choices ?? [])] };
  return { kind: "approval", session, callId, tool: event.tool, text: event.summary, rule: event.rule, covers: [...(event.covers ?? [])] };
}

/** A client of a Hutch server. Needs `fetch` and streams, as browsers and Node have them. */
import type { components } from "./schema";

export type Schemas = components["schemas"];
export type SessionRow = Schemas["Session"];
export type NewSession = Partial<Schemas["NewSessionIn"]>;
export type Event = Schemas["Event"];
export type Entry = { seq: number; at_ms: number; event: Event };
export type CommandResult = Schemas["CommandResult"];
export type Run = { id: string; outcome: string; reason: string; branch: string };
type Fields = Record<string, unknown>;

/** An error response; `code` is one of those that docs/errors.md lists. */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string, detail: string) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

export class Hutch {
  private readonly base: string;
  private readonly token: string;
  constructor(url: string, token: string) {
    this.base = `${url.replace(/\/+$/, "")}/api/v1`;
    this.token = token;
  }

  async newSession(what: NewSession): Promise<Session> {
    return new Session(this, await this.json<SessionRow>("POST", "/sessions", what));
  }

  async session(id: string): Promise<Session> {
    return new Session(this, await this.json<SessionRow>("GET", `/sessions/${encodeURIComponent(id)}`));
  }

  async sessions(limit = 50): Promise<Session[]> {
    const page = await this.json<{ items: SessionRow[] }>("GET", `/sessions?limit=${limit}`);
    return page.items.map((row) => new Session(this, row));
  }

  /** A request to the API; anything but success is a Problem. The server performs a POST once. */
  async send(method: string, path: string, body?: BodyInit, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
    const key: Record<string, string> = method === "POST" ? { "Idempotency-Key": crypto.randomUUID() } : {};
    const authorization = { Authorization: `Bearer ${this.token}` };
    const response = await fetch(this.base + path, { method, body, signal, headers: { ...authorization, ...key, ...headers } });
    if (response.ok) return response;
    const text = await response.text();
    let problem: { code?: string; detail?: string } = {};
    try {
      problem = JSON.parse(text) as typeof problem;
    } catch {
      problem = { detail: text.slice(0, 500) };
    }
    throw new Problem(response.status, problem.code ?? "unknown", problem.detail ?? response.statusText);
  }

  async json<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const response = await this.send(method, path, sent, { "Content-Type": "application/json" }, signal);
    return (await response.json()) as T;
  }
}

export class Session {
  readonly hutch: Hutch;
  readonly row: SessionRow;
  constructor(hutch: Hutch, row: SessionRow) {
    this.hutch = hutch;
    this.row = row;
  }

  get id(): string {
    return this.row.id;
  }

  /** Give a prompt, and wait for the end of its run. */
  async prompt(text: string): Promise<Run> {
    const now = await this.hutch.session(this.id);
    const after = now.row.head?.seq ?? 0;
    const given = await this.give("prompt", { text });
    return this.follow(given.seq, after);
  }

  /** Wait for the end of the session's first run. */
  async wait(): Promise<Run> {
    return this.follow(undefined, 0);
  }

  /** An input: prompt, message, approve, deny, answer, cancel and others. */
  async give(type: Schemas["Input"]["input"]["type"], fields: Fields = {}): Promise<{ seq: number }> {
    return this.hutch.json("POST", `/sessions/${this.id}/inputs`, { type, ...fields });
  }

  /** Run a command in a shell of the session. */
  async shell(command: string, options: Fields = {}): Promise<CommandResult> {
    return this.hutch.json("POST", `/sessions/${this.id}/commands`, { command, ...options });
  }

  async read(path: string): Promise<Uint8Array> {
    const response = await this.hutch.send("GET", this.file(path));
    return new Uint8Array(await response.arrayBuffer());
  }

  async write(path: string, content: string | Uint8Array): Promise<void> {
    await this.hutch.send("PUT", this.file(path), content as BodyInit, { "Content-Type": "application/octet-stream" });
  }

  async diff(): Promise<string> {
    return (await this.hutch.json<{ patch: string }>("GET", `/sessions/${this.id}/diff`)).patch;
  }

  /** Every entry after a number, also those to come, until the session ends. Opens a broken stream again. */
  async *events(after = 0, signal?: AbortSignal): AsyncGenerator<Entry> {
    for (;;) {
      const last: Record<string, string> = after > 0 ? { "Last-Event-ID": String(after) } : {};
      try {
        const path = `/sessions/${this.id}/events/stream`;
        const response = await this.hutch.send("GET", path, undefined, { Accept: "text/event-stream", ...last }, signal);
        if (response.status === 204 || response.body === null) return;
        for await (const [kind, data] of frames(response.body)) {
          if (kind === "end") return;
          const entry = data as Entry;
          if (entry.event !== undefined && entry.seq > after) {
            after = entry.seq;
            yield entry;
          }
        }
      } catch (error) {
        if (error instanceof Problem || signal?.aborted === true) throw error;
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
    }
  }

  private file(path: string): string {
    return `/sessions/${this.id}/files/${path.split("/").map(encodeURIComponent).join("/")}`;
  }

  private async follow(input: number | undefined, after: number): Promise<Run> {
    const run: Run = { id: "", outcome: "", reason: "", branch: "" };
    const leaving = new AbortController();
    let isNext = input === undefined;
    try {
      for await (const { event } of this.events(after, leaving.signal)) {
        if (event.type === "input.processed" && event.input === input) {
          if (event.refused) throw new Problem(409, "conflict", event.refused);
          isNext = true;
        } else if (event.type === "run.queued" && isNext && run.id === "") {
          run.id = event.run_id;
        } else if (event.type === "change.proposed") {
          run.branch = event.branch;
        } else if (event.type === "run.ended" && event.run_id === run.id) {
          run.outcome = event.outcome;
          run.reason = event.reason ?? "";
          const delivers = this.row.deliver && (event.outcome === "done" || event.outcome === "tests_failing");
          if (!delivers) return run;
        } else if (event.type === "delivery.ended" && event.run_id === run.id) {
          return run;
        }
      }
    } finally {
      leaving.abort();
    }
    return run;
  }
}

/** The kinds and data of server-sent events. */
async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<[string, unknown]> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let kind = "message";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const lines = text.split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "" || line === "\r") kind = "message";
        else if (line.startsWith("event:")) kind = line.slice(6).trim();
        else if (line.startsWith("data:")) yield [kind, JSON.parse(line.slice(5)) as unknown];
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

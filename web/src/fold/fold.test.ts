// The vectors are shared with other renderers: frames of a log in, view out. UPDATE_VECTORS=1 writes the views anew.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { Fold, foldAll } from "./fold";
import { foldEnd, foldOlder } from "./partial_log";
import type { AnyEntry } from "./view_types";

const DIRECTORY = new URL("../../../tests/vectors/fold/", import.meta.url);
type Vector = { about: string; frames: Parameters<typeof foldAll>[0]; view: unknown };

describe("vectors", () => {
  for (const name of readdirSync(DIRECTORY).filter((each) => each.endsWith(".json"))) {
    const file = new URL(name, DIRECTORY);
    const vector = JSON.parse(readFileSync(file, "utf-8")) as Vector;
    it(`${name}: ${vector.about}`, () => {
      const view = JSON.parse(JSON.stringify(foldAll(vector.frames))) as unknown;
      if (process.env["UPDATE_VECTORS"]) writeFileSync(file, `${JSON.stringify({ ...vector, view }, null, 1)}\n`);
      else expect(view).toEqual(vector.view);
    });
  }
});

const opened = { seq: 1, at_ms: 0, event: { type: "session.opened", v: 1, purpose: "", owner: "ada", role: "", expectations: "", company: "" } };
const delta = (kind: "text" | "again", text: string) => ({ run_id: "r", turn: 1, kind, text, call_id: "", tool: "" });

/** One run whose turns have a reply and a command with 8 KB of output. */
function entriesOfRun(turns: number): AnyEntry[] {
  const events: AnyEntry["event"][] = [opened.event, { type: "run.started", run_id: "run", prompt: "Go", persona: "engineer", model: "m" }];
  for (let turn = 1; turn <= turns; turn += 1) {
    const call = { id: `c${turn}`, tool: "bash", arguments: "{}" };
    events.push(
      { type: "model.replied", run_id: "run", turn, text: `Reply ${turn}`, thinking: "", calls: [call], input_tokens: 1, output_tokens: 1, cost_usd: 0, duration_s: 1 },
      { type: "tool.called", run_id: "run", call_id: call.id, tool: "bash", arguments: "{}" },
      { type: "command.started", shell: "main", terminal: "", command: "yes", cwd: "/", by: "agent", call_id: call.id },
      { type: "shell.printed", shell: "main", stream: "stdout", text: "x".repeat(8192), skipped_bytes: 0, background_id: null, by: "agent" },
      { type: "command.ended", shell: "main", terminal: "", command: "yes", cwd: "/", exit_code: 0, signal: null, timed_out: false, duration_s: 1, background_id: null, by: "agent" },
      { type: "tool.returned", run_id: "run", call_id: call.id, tool: "bash", ok: true, text: "", duration_s: 1, rule: "" },
    );
  }
  return events.map((event, at) => ({ seq: at + 1, at_ms: at, event }));
}

function longRun(turns: number): Fold {
  const fold = new Fold();
  fold.entries(entriesOfRun(turns));
  return fold;
}

describe("fold", () => {
  it("keeps the last 64 KB of output and counts the rest", () => {
    const fold = new Fold();
    fold.entry(opened);
    fold.entry({ seq: 2, at_ms: 1, event: { type: "command.started", shell: "main", terminal: "", command: "yes", cwd: "/", by: "ada", call_id: "" } });
    for (let seq = 3; seq < 203; seq += 1) {
      fold.entry({ seq, at_ms: seq, event: { type: "shell.printed", shell: "main", stream: "stdout", text: "x".repeat(1024), skipped_bytes: 0, background_id: null, by: "ada" } });
    }
    const row = fold.view.rows[0];
    expect(row?.kind === "command" && [row.output.chars, row.output.skipped]).toEqual([64 * 1024, 136 * 1024]);
  });

  it("takes an entry only once", () => {
    const fold = new Fold();
    fold.entries([opened, { seq: 2, at_ms: 1, event: { type: "message.sent", author: "user", text: "hi", by: "", input: 1 } }]);
    fold.entry({ seq: 2, at_ms: 1, event: { type: "message.sent", author: "user", text: "hi", by: "", input: 1 } });
    expect(fold.view.rows).toHaveLength(1);
  });

  it("leaves nothing of a reply that begins again", () => {
    const fold = new Fold();
    fold.delta(delta("text", "Half a rep"), 1);
    fold.delta(delta("again", "overloaded, again in 2 s"), 2);
    fold.delta(delta("text", "Whole."), 3);
    expect(fold.view.rows.map((row) => row.kind === "reply" && [row.text, row.again])).toEqual([["Whole.", ""]]);
  });

  it("folds 50,000 events, and keeps the newest rows", () => {
    const fold = new Fold();
    fold.entry(opened);
    for (let seq = 2; seq < 50_002; seq += 1) {
      fold.entry({ seq, at_ms: seq, event: { type: "message.sent", author: "user", text: "hi", by: "", input: seq } });
    }
    const { rows, rowsFrom } = fold.view;
    expect(rows.length >= 5000 && rows.length <= 5500).toBe(true);
    expect([rows[0]?.seq, rows.at(-1)?.seq]).toEqual([rowsFrom, 50_001]);
    expect(fold.row(`message:${rowsFrom}`)).toBe(rows[0]);
    expect(fold.row("message:2")).toBeUndefined();
  });

  it("keeps the prompt of a run that goes on, and less of old output", () => {
    const fold = longRun(4000);
    expect(fold.view.rows[0]).toMatchObject({ kind: "prompt", runId: "run" });
    const outputs = fold.view.rows.flatMap((row) => (row.kind === "tool" ? [row.output.chars] : []));
    expect([outputs[0], outputs.at(-1)]).toEqual([4096, 8192]);
    fold.entry({ seq: fold.view.seq + 1, at_ms: 0, event: { type: "run.ended", run_id: "run", outcome: "done", reason: "", turns: 1, cost_usd: 0, duration_s: 1 } });
    expect(fold.view.rows[0]).toMatchObject({ state: "ended" });
  });

  it("goes on from a stored fold as if it had never ended", () => {
    const whole = longRun(60);
    const first = longRun(30);
    const restored = Fold.restored(structuredClone(first.save()));
    for (const entry of entriesOfRun(60)) restored?.entry(entry); // those that it has are ignored
    expect(restored?.view).toEqual(whole.view);
    expect(Fold.restored({ ...first.save(), version: 1 })).toBeNull();
  });

  it("folds a part of a log into the same rows as the whole", () => {
    const log = entriesOfRun(60);
    const whole = longRun(60).view.rows;
    const { rows, from } = foldOlder(log.slice(101, 200));
    const last = rows.at(-1)?.seq ?? 0;
    expect(rows.length).toBeGreaterThan(20);
    expect(rows).toEqual(whole.filter((row) => row.seq >= from && row.seq <= last && row.kind !== "prompt"));
    const end = foldEnd(log.slice(-50), { state: "running", purpose: "", owner: "", persona: "engineer", model: "m" });
    expect([end.view.run, end.view.state, end.view.rows]).toEqual(["run", "running", whole.slice(-end.view.rows.length)]);
  });
});

type Api = { components: { schemas: { Event: { oneOf: { $ref: string }[] } } & Record<string, { properties: Record<string, { const?: string; default?: unknown; type?: string; items?: unknown }> }> } };

/** An event of each type of the API, with the simplest values. */
function oneOfEach(): { type: string }[] {
  const { schemas } = (JSON.parse(readFileSync(new URL("../../../docs/openapi.json", import.meta.url), "utf-8")) as Api).components;
  const simplest = (part: { const?: string; type?: string; default?: unknown }) => part.const ?? part.default ?? (part.type === "array" ? [] : part.type === "object" ? {} : part.type === "integer" || part.type === "number" ? 1 : part.type === "boolean" ? false : "x");
  return schemas.Event.oneOf.map(({ $ref }) => {
    const { properties } = schemas[$ref.split("/").at(-1) ?? ""] ?? { properties: {} };
    return Object.fromEntries(Object.entries(properties).map(([name, part]) => [name, simplest(part)])) as { type: string };
  });
}

describe("events of the API", () => {
  it("all have a row of their own, or none on purpose", () => {
    const events = oneOfEach();
    expect(events.length).toBeGreaterThan(50);
    const fold = new Fold();
    fold.entries(events.map((event, at) => ({ seq: at + 1, at_ms: at, event })));
    expect(fold.view.rows.flatMap((row) => (row.kind === "note" && row.what === "unknown" ? [row.text] : []))).toEqual([]);
  });

  it("show a service in one row, from its start to its end", () => {
    const fold = new Fold();
    const events = [opened.event, { type: "service.started", service: "db", command: "postgres", port: 1 }, { type: "service.answered", service: "db", duration_s: 1, found: false }, { type: "service.failed", service: "cache", reason: "It did not answer.", output: "" }];
    fold.entries(events.map((event, at) => ({ seq: at + 1, at_ms: at, event })));
    expect(fold.view.rows.map((row) => row.kind === "note" && [row.what, row.text, row.detail])).toEqual([["serviceReady", "db", "postgres"], ["serviceFailed", "cache", "It did not answer."]]);
  });

  it("say after a crash that nothing recorded is lost", () => {
    const fold = new Fold();
    const gap = { type: "events.omitted", cause: "crash", reason: "The server ended.", since_ms: 0, until_ms: 1, count: 0 };
    fold.entries([opened, { seq: 2, at_ms: 1, event: gap }]);
    expect(fold.view.rows.map((row) => row.kind === "note" && [row.tone, row.what, row.detail])).toEqual([["warn", "crashed", "The server ended."]]);
  });
});

import { createServer } from "node:http";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Task } from "./task_values_filter_and_order";
import { withValues } from "./task_values_filter_and_order";
import { changeTask, connectUnsent } from "./unsent_task_changes";

const fields = { title: "Fix login", state: "todo", owner: "", priority: "", estimate: "", milestone: "", labels: [], depends_on: [], criteria: [] } as unknown as Task["fields"];
const first: Task = { id: "tsk_1", repository: "", address: "", key: "T-1", fields, description: "", links: [], revision: 1, archived: false, created_by: "", created_ms: 0, updated_ms: 0 };
let task = first;
const statuses: number[] = [];
let breaksOff = false; // the next answer ends in its middle

/** Answers as the server does: a change of an older revision is refused. */
function answer(method: string, body: string): [number, unknown] {
  if (method === "GET") return [200, task];
  const { revision, ...values } = JSON.parse(body) as { revision: number };
  if (revision !== task.revision) return [409, { code: "conflict" }];
  task = { ...withValues(task, values), revision: task.revision + 1 };
  return [200, task];
}

const server = createServer((request, response) => void (async () => {
  let body = "";
  for await (const part of request) body += String(part);
  const [status, content] = answer(request.method ?? "", body);
  if (request.method === "PATCH") statuses.push(status);
  const text = JSON.stringify(content);
  response.writeHead(status, { "Content-Type": "application/json", "Content-Length": text.length });
  if (breaksOff) {
    breaksOff = false;
    response.write(text.slice(0, 10), () => response.destroy());
  } else response.end(text);
})());

beforeAll(async () => {
  await new Promise<void>((ready) => void server.listen(0, "127.0.0.1", ready));
  const { port } = server.address() as { port: number };
  const { fetch } = globalThis;
  const entries = new Map<string, string>();
  vi.stubGlobal("fetch", (path: string, options: RequestInit) => fetch(`http://127.0.0.1:${port}${path}`, options));
  vi.stubGlobal("localStorage", { getItem: (name: string) => entries.get(name) ?? null, setItem: (name: string, value: string) => entries.set(name, value), removeItem: (name: string) => entries.delete(name) });
  vi.stubGlobal("window", new EventTarget());
});
afterAll(() => {
  vi.unstubAllGlobals();
  server.close();
});

test("a change that follows before the page was drawn again is based on the one before; one by others is not", async () => {
  const stored: Task[] = [];
  connectUnsent("usr_1", (each) => stored.push(each));
  changeTask(first, { owner: "ada" });
  await vi.waitFor(() => expect(stored).toHaveLength(1));
  const shown = withValues(first, { owner: "ada" }); // still of revision 1
  changeTask(shown, { priority: "high" });
  await vi.waitFor(() => expect(stored).toHaveLength(2));
  expect(statuses).toEqual([200, 200]);
  expect(task.revision).toBe(3);

  task = { ...withValues(task, { labels: ["bug"] }), revision: 4 }; // by somebody else
  changeTask({ ...withValues(shown, { priority: "high" }), revision: 3 }, { labels: ["ui"] });
  await vi.waitFor(() => expect(stored).toHaveLength(3));
  expect(statuses).toEqual([200, 200, 409, 200]);
  expect(task.fields.labels).toEqual(["bug", "ui"]);
});

test("a change whose answer breaks off is sent again, and does not count as refused", async () => {
  const stored: Task[] = [];
  connectUnsent("usr_2", (each) => stored.push(each));
  const shown = task;
  breaksOff = true;
  changeTask(shown, { milestone: "1.0" });
  await vi.waitFor(() => expect(stored).toHaveLength(1), { timeout: 60_000 });
  expect(task.fields.milestone).toBe("1.0");
  expect(task.revision).toBe(shown.revision + 1); // it was made once
  await vi.waitFor(() => expect(localStorage.getItem("hutch.unsent-tasks.usr_2")).toBeNull());
}, 60_000);

// Requests to the API: JSON, the CSRF header, and errors that a person can act on.
import type { components } from "./schema";
import { strings } from "../strings";

export type Schemas = components["schemas"];
export type Session = Schemas["Session"];
export type Change = Schemas["Change"];
export type Entry = Schemas["Entry"];
export type Input = Schemas["Prompt"] | Schemas["Message"] | Schemas["Approve"] | Schemas["Extend"] | Schemas["Deny"] | Schemas["Answer"] | Schemas["Cancel"]
  | Schemas["Pause"] | Schemas["Resume"] | ({ type: "undo" } & Partial<Schemas["Undo"]>) | ({ type: "redo" } & Partial<Schemas["Redo"]>) | Schemas["End"];

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly traceId: string,
    readonly paths: readonly string[] = [], // of an undo: files that others have changed too
    readonly fields: { at: string; message: string }[] = [],
  ) {
    super(detail);
  }
}

/** The trace of the last response, for a report about a page that failed. */
export let lastTrace = "";
let csrf = "";
export function setCsrf(token: string): void {
  csrf = token;
}

type Options = { method?: string; body?: unknown; raw?: BodyInit; headers?: Record<string, string>; signal?: AbortSignal; keepalive?: boolean };

/** A request; anything but success is a Problem. */
export async function send(path: string, options: Options = {}): Promise<Response> {
  const { method = "GET", body, raw, headers = {}, signal, keepalive } = options;
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, {
      method,
      headers: {
        ...(method === "GET" ? {} : { "X-CSRF-Token": csrf }),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? (raw ?? null) : JSON.stringify(body),
      ...(signal ? { signal } : {}),
      ...(keepalive ? { keepalive } : {}),
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "offline", "The server cannot be reached.", "");
  }
  lastTrace = response.headers.get("X-Trace-Id") ?? lastTrace;
  if (response.ok || response.status === 304) return response;
  throw await problemOf(response);
}

async function problemOf(response: Response): Promise<Problem> {
  const trace = response.headers.get("X-Trace-Id") ?? "";
  try {
    const content = (await response.json()) as Partial<Schemas["Problem"]>;
    return new Problem(response.status, content.code ?? "", content.detail ?? response.statusText, trace, content.paths ?? [], content.errors ?? []);
  } catch {
    return new Problem(response.status, "", response.statusText || `Status ${response.status}`, trace);
  }
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await send(path, signal ? { signal } : {})).json()) as T;
}

export async function post<T>(path: string, body: unknown = {}, method = "POST"): Promise<T> {
  const response = await send(path, { method, body });
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export const giveInput = (session: string, input: Input) => post(`/sessions/${session}/inputs`, input);

/** A path of the workspace as it stands in an address. Browsers resolve "..", which would lead to another route. */
export function inAddress(path: string): string {
  const parts = path.split("/");
  if (parts.some((part) => part === "." || part === "..")) throw new Problem(400, "bad_request", strings.error.dots, "");
  return parts.map(encodeURIComponent).join("/");
}

export function asProblem(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem(0, "bug", error instanceof Error ? error.message : String(error), "");
}

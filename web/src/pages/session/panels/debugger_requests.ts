// Requests about the debugger of a session. Its state comes from the events, so everyone sees the same.
import { type Schemas, post } from "../../../api/http_client";
import type { Breakpoint } from "../../../fold/view_types";

export const CAN_DEBUG = /\.(py|go|[mc]?[jt]s)$/i;
const IS_TEST = /(^|\/)(test_[^/]*\.py|[^/]*_test\.(py|go)|[^/]*\.(test|spec)\.[mc]?[jt]s)$/i;

export const isTest = (path: string) => IS_TEST.test(path);

export const startDebugger = (session: string, path: string, test = "") => post<Schemas["Debugger"]>(`/sessions/${session}/debugger`, { path, test, as_test: isTest(path) });

export const setBreakpoints = (session: string, path: string, breakpoints: readonly Breakpoint[]) => post<Schemas["Debugger"]>(`/sessions/${session}/debugger/breakpoints`, { path, breakpoints }, "PUT");

/** The breakpoints of a file after a click at a line. */
export const toggled = (breakpoints: readonly Breakpoint[], line: number): Breakpoint[] => (breakpoints.some((each) => each.line === line) ? breakpoints.filter((each) => each.line !== line) : [...breakpoints, { line, condition: "" }]);

/** A test as the debugger takes it: its classes and its function, without the module of Python. */
export function testIn(file: string, name: string): string {
  const stem = /([^/]+)\.py$/.exec(file)?.[1];
  if (!stem) return name;
  const parts = name.split(/::|\./);
  const at = parts.lastIndexOf(stem);
  return parts.slice(at + 1).filter((part) => part !== "py").join("::");
}

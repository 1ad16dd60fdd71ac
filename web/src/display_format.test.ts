import assert from "node:assert/strict";
import { test } from "vitest";
import { commandEnd } from "./display_format";

test("the end of a command is its exit code, a signal, or the end of its time", () => {
  const ended = { exitCode: null, signal: null, timedOut: false };
  assert.equal(commandEnd({ ...ended, exitCode: 1 }), "exit 1");
  assert.equal(commandEnd({ ...ended, signal: 9 }), "signal 9");
  assert.equal(commandEnd({ ...ended, signal: 9, timedOut: true }), "timed out");
  assert.equal(commandEnd(ended), "stopped");
});

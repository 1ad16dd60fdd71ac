import assert from "node:assert/strict";
import { test } from "vitest";
import { onReturn } from "./socket_watch";

test("other sockets are notified once when a stream is live again", () => {
  let listener = () => {};
  const stream = { connection: { status: "live" }, subscribe: (each: () => void) => ((listener = each), () => {}) };
  let count = 0;
  onReturn(stream, () => (count += 1));
  for (const status of ["live", "down", "down", "live", "live"]) {
    stream.connection = { status };
    listener();
  }
  assert.equal(count, 1);
});

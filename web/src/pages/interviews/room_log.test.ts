import { expect, test } from "vitest";
import { emptyRoom, foldRoom } from "./room_log";

const entry = (seq: number, type: string, fields: Record<string, unknown> = {}) => ({ seq, at_ms: 1000 * seq, event: { type, ...fields } });

test("an entry that one may not see, or that comes twice, changes nothing but the number", () => {
  const view = emptyRoom();
  foldRoom(view, entry(1, "note.written", { withheld: true }));
  foldRoom(view, entry(2, "message.sent", { text: "Hello", by: "usr_1" }));
  foldRoom(view, entry(2, "message.sent", { text: "Hello", by: "usr_1" }));
  expect([view.seq, view.notes.length, view.messages.length]).toEqual([2, 0, 1]);
});

test("a later rating of the same assessor replaces the first, and one without points takes it back", () => {
  const view = emptyRoom();
  const rating = { number: 1, criterion: "Correctness", by: "usr_1" };
  foldRoom(view, entry(1, "rating.given", { ...rating, points: 2 }));
  foldRoom(view, entry(2, "rating.given", { ...rating, points: 4, comment: "Better" }));
  foldRoom(view, entry(3, "rating.given", { ...rating, by: "usr_2", points: 3 }));
  expect([...view.ratings.values()].map((each) => each.points)).toEqual([4, 3]);
  foldRoom(view, entry(4, "rating.given", { ...rating, points: null }));
  expect([...view.ratings.values()].map((each) => each.by)).toEqual(["usr_2"]);
});

test("client events are claims: a time after the server's is cut to it, unknown kinds are left out", () => {
  const view = emptyRoom();
  const events = [{ type: "paste", timestamp: "2999-01-01T00:00:00Z", data: { chars: 12, where: "editor" } }, { type: "resize", data: {} }];
  foldRoom(view, entry(5, "client.reported", { workspace: "ses_1", events }));
  expect(view.clients).toEqual([{ seq: 5, atMs: 5000, elapsedMs: 0, type: "paste", chars: 12, where: "editor", workspace: "ses_1" }]);
});

test("the history names what the system check has found missing", () => {
  const view = emptyRoom();
  const works = { name: "python", ok: true, message: "" };
  foldRoom(view, entry(6, "lobby.checked", { ok: true, checks: [works] }));
  foldRoom(view, entry(7, "lobby.checked", { ok: false, checks: [works, { name: "assistant", ok: false, message: "There is no key." }] }));
  expect(view.history.map((each) => each.detail)).toEqual(["✓", "✗ assistant: There is no key."]);
});

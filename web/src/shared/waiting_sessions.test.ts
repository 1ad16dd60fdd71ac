import { expect, it } from "vitest";
import { waitingSessions } from "./waiting_sessions";

it("counts what a helper asks once, with its parent", () => {
  const sessions = [
    { id: "parent", state: "waiting", parent: "" },
    { id: "helper", state: "waiting", parent: "parent" },
    { id: "alone", state: "waiting", parent: "busy" },
    { id: "busy", state: "running", parent: "" },
  ] as const;
  expect(waitingSessions(sessions).map((each) => each.id)).toEqual(["parent", "alone"]);
});

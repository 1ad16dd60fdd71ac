import { readFileSync, readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { Fold } from "../../fold/fold";
import type { AnyEntry } from "../../fold/view_types";
import { Moments, copyFold } from "./view_at_moment";
import { Axis, IDLE_MS } from "./time_axis";

const entry = (seq: number, at_ms: number): AnyEntry => ({ seq, at_ms, event: seq === 1 ? { type: "session.opened", purpose: "", owner: "ada" } : { type: "message.sent", author: "user", text: `m${seq}`, by: "", input: seq } });

describe("axis", () => {
  it("cuts a pause of three hours to two seconds, and keeps its length", () => {
    const axis = new Axis();
    for (const [seq, at] of [[1, 0], [2, 1000], [3, 1000 + 3 * 3_600_000], [4, 1500 + 3 * 3_600_000]] as const) axis.add(entry(seq, at));
    expect([axis.positions, axis.gaps]).toEqual([[0, 1000, 1000 + IDLE_MS, 1500 + IDLE_MS], [{ from: 1000, to: 1000 + IDLE_MS, realMs: 3 * 3_600_000 }]]);
    expect([0, 999, 1000, 2999, 3000, 99_999].map((at) => axis.seqAt(at))).toEqual([1, 1, 2, 2, 3, 4]);
    expect(axis.timeAt(2000)).toBe(1000 + 1.5 * 3_600_000);
  });
});

describe("moments", () => {
  const entries = Array.from({ length: 1700 }, (_, index) => entry(index + 1, index));
  it("are the same from the start and after jumps in both directions", () => {
    const moments = new Moments(entries);
    for (const seq of [1700, 3, 1200, 501, 499, 1699, 1]) {
      const fold = new Fold();
      fold.entries(entries.slice(0, seq));
      expect(moments.at(seq)).toEqual(fold.view);
      expect(moments.peek(seq)).toEqual(fold.view);
    }
  });

  it("copies every part of a fold that later events change", () => {
    const directory = new URL("../../../../tests/vectors/fold/", import.meta.url);
    for (const name of readdirSync(directory)) {
      const vector = JSON.parse(readFileSync(new URL(name, directory), "utf-8")) as { frames: ({ entry: AnyEntry } | object)[] };
      const log = vector.frames.flatMap((frame) => ("entry" in frame ? [frame.entry] : []));
      const whole = new Fold();
      whole.entries(log);
      for (let cut = 0; cut < log.length; cut += 1) {
        const first = new Fold();
        first.entries(log.slice(0, cut));
        const frozen = JSON.stringify(first.view);
        const rest = copyFold(first);
        rest.entries(log.slice(cut));
        expect([JSON.stringify(first.view), JSON.stringify(rest.view)]).toEqual([frozen, JSON.stringify(whole.view)]);
      }
    }
  });
});

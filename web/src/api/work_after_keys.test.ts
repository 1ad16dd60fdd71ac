import assert from "node:assert/strict";
import { test } from "vitest";
import { WorkAfterKeys } from "./work_after_keys";

/** A clock that moves when the test says so, with a frame every 16 ms. */
class ManualClock {
  ms = 0;
  private due: { at: number; work: () => void }[] = [];
  now = () => this.ms;
  later = (work: () => void, ms: number) => void this.due.push({ at: this.ms + ms, work });
  onFrame = (work: () => void) => this.later(work, 16 - (this.ms % 16));

  advance(until: number): void {
    for (;;) {
      const next = this.due.filter((each) => each.at <= until).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.due.splice(this.due.indexOf(next), 1);
      this.ms = next.at;
      next.work();
    }
    this.ms = until;
  }
}

function started(): { clock: ManualClock; works: WorkAfterKeys; ran: number[]; add: () => void } {
  const clock = new ManualClock();
  const works = new WorkAfterKeys(clock);
  const ran: number[] = [];
  return { clock, works, ran, add: () => works.add(() => ran.push(clock.ms)) };
}

test("work waits for the next frame when nobody types", () => {
  const { clock, ran, add } = started();
  add();
  clock.advance(500);
  assert.deepEqual(ran, [16]);
});

test("while somebody types, work runs after the frame of the next key", () => {
  const { clock, works, ran, add } = started();
  works.noteKey();
  clock.advance(40);
  add();
  clock.advance(60);
  assert.deepEqual(ran, []);
  works.noteKey();
  clock.advance(500);
  assert.deepEqual(ran, [64]);
});

test("work does not wait longer for a key that does not come", () => {
  const { clock, works, ran, add } = started();
  works.noteKey();
  clock.advance(10);
  add();
  clock.advance(500);
  assert.deepEqual(ran, [176]);
});

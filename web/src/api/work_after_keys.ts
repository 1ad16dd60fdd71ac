// Work that may wait, such as showing the next words of a reply, runs right after a key was drawn while somebody types. The
// next key is furthest away then. At any other moment the work could delay a key by a frame.
const TYPING_MS = 300; // after the last key nobody types any more
const MAX_WAIT_MS = 150; // for the next key

type Clock = { now: () => number; onFrame: (work: () => void) => void; later: (work: () => void, ms: number) => void };

const CLOCK: Clock = {
  now: () => performance.now(),
  onFrame: (work) => void requestAnimationFrame(work),
  later: (work, ms) => void setTimeout(work, ms),
};

export class WorkAfterKeys {
  private keyMs = -Infinity;
  private waiting = new Set<() => void>();

  constructor(private readonly clock: Clock = CLOCK) {}

  /** A key was pressed: run what waits as soon as its frame was drawn. */
  noteKey = (): void => {
    this.keyMs = this.clock.now();
    if (this.waiting.size === 0) return;
    this.clock.onFrame(() => this.clock.later(() => {
      const works = [...this.waiting];
      this.waiting.clear();
      for (const work of works) work();
    }, 0));
  };

  /** Run the work once: after the next key, or with the next frame if nobody types. */
  add(work: () => void): void {
    if (this.clock.now() - this.keyMs > TYPING_MS) return this.clock.onFrame(work);
    const once = () => work(); // the same work may be added twice
    this.waiting.add(once);
    this.clock.later(() => this.waiting.delete(once) && this.clock.onFrame(work), MAX_WAIT_MS);
  }
}

/** Of this page. */
export const workAfterKeys = new WorkAfterKeys();
if (typeof window !== "undefined") window.addEventListener("keydown", workAfterKeys.noteKey, { capture: true });

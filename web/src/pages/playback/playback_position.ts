// The position of a playback on its axis, and its moves: by the clock, by seeking, or with a live session.
import type { Recording } from "./playback_events";

export const SPEEDS = [0.5, 1, 2, 4, 8, 16];

export class Player {
  position = 0;
  playing = false;
  following = false;
  version = 0;
  private frame = 0;
  private last = 0;
  private listeners = new Set<() => void>();

  constructor(readonly recording: Recording, public speed: number) {}

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  private changed(): void {
    this.version += 1;
    for (const listener of this.listeners) listener();
  }

  get seq(): number {
    return this.recording.axis.seqAt(this.position);
  }

  get isAtEnd(): boolean {
    return this.position >= this.recording.axis.end;
  }

  seek(position: number): void {
    this.following = false;
    this.position = Math.max(0, Math.min(this.recording.axis.end, position));
    this.changed();
  }

  seekEvent(seq: number): void {
    this.seek(this.recording.axis.positionOf(seq));
  }

  follow(): void {
    this.pause();
    this.following = true;
    this.catchUp();
  }

  /** The log has grown. */
  catchUp(): void {
    if (!this.following) return;
    this.position = this.recording.axis.end;
    this.changed();
  }

  toggle(): void {
    if (this.playing) this.pause();
    else this.play();
  }

  play(): void {
    this.following = false;
    if (this.isAtEnd) this.position = 0;
    this.playing = true;
    this.last = performance.now();
    this.changed();
    const step = (now: number) => {
      if (!this.playing) return;
      this.position = Math.min(this.recording.axis.end, this.position + Math.min(250, now - this.last) * this.speed);
      this.last = now;
      if (this.isAtEnd) {
        this.playing = false;
        this.following = this.recording.isLive;
      } else {
        this.frame = requestAnimationFrame(step);
      }
      this.changed();
    };
    this.frame = requestAnimationFrame(step);
  }

  pause(): void {
    cancelAnimationFrame(this.frame);
    this.playing = false;
    this.changed();
  }

  setSpeed(speed: number): void {
    this.speed = speed;
    this.changed();
  }

  changeSpeed(by: 1 | -1): void {
    const at = SPEEDS.findIndex((each) => each >= this.speed);
    this.setSpeed(SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, (at < 0 ? SPEEDS.length - 1 : at) + by))] ?? 1);
  }

  stepEvent(by: 1 | -1): void {
    this.pause();
    this.seekEvent(this.seq + by);
  }

  stepMarker(by: 1 | -1, seqs: readonly number[]): void {
    const { axis } = this.recording;
    const places = seqs.map((seq) => axis.positionOf(seq));
    const found = by > 0 ? places.find((each) => each > this.position) : places.findLast((each) => each < this.position);
    if (found !== undefined) this.seek(found);
  }
}

/** A length on the axis, as 1:02 or 1:02:03. */
export function clockOf(ms: number): string {
  const s = Math.floor(ms / 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

/** The position that a person typed: a time of the axis in ms, or an event. */
export function parsePlace(typed: string): { ms: number } | { seq: number } | null {
  const event = /^#?(\d+)$/.exec(typed.trim());
  if (event && typed.trim().startsWith("#")) return { seq: Number(event[1]) };
  const time = /^(?:(\d+):)?(?:(\d+):)?(\d+(?:\.\d+)?)$/.exec(typed.trim());
  if (!time) return null;
  const [hours, minutes] = time[2] === undefined ? [0, Number(time[1] ?? 0)] : [Number(time[1]), Number(time[2])];
  return { ms: (hours * 3600 + minutes * 60 + Number(time[3])) * 1000 };
}

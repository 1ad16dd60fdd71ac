// The lanes of the timeline: events by kind and author. A drag or a click seeks; the page handles the keys.
import { type PointerEvent, useEffect, useRef, useState } from "react";
import { clock, seconds } from "../../display_format";
import { text } from "../../strings/playback";
import { type Mark, authorName } from "./timeline_event";
import { type Player, clockOf } from "./playback_position";

const LANE_PX = 16;
const LABEL_PX = 116;
const MIN_GAP_LABEL_PX = 34;

export type Lane = { key: string; lane: Mark["lane"]; author: string };
type Props = { player: Player; version: number; hits: readonly number[]; withSeq: number; nameOf: (by: string) => string; colourOf: (by: string) => string };

/** Edits and terminals have a lane per author; conversation and tests are one lane each. */
export function lanesOf(marks: readonly Mark[]): Lane[] {
  const found = new Map<string, Lane>();
  for (const { lane, author } of marks) {
    const isShared = lane === "talk" || lane === "tests";
    const key = isShared ? lane : `${lane}:${author}`;
    if (!found.has(key)) found.set(key, { key, lane, author: isShared ? "" : author });
  }
  const order = ["talk", "edits", "terminal", "tests"];
  return [...found.values()].sort((a, b) => order.indexOf(a.lane) - order.indexOf(b.lane)).slice(0, 8);
}

export function Lanes({ player, version, hits, withSeq, nameOf, colourOf }: Props) {
  const { recording } = player;
  const { axis } = recording;
  const canvas = useRef<HTMLCanvasElement>(null);
  const area = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [painted, repaint] = useState(0);
  const lanes = lanesOf(recording.marks);
  const height = Math.max(1, lanes.length) * LANE_PX + 8;
  const end = Math.max(1, axis.end);
  useEffect(() => {
    const element = area.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    const again = () => repaint((count) => count + 1);
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", again);
    window.addEventListener("hutch:theme", again);
    return () => {
      watch.disconnect();
      media.removeEventListener("change", again);
      window.removeEventListener("hutch:theme", again);
    };
  }, []);
  useEffect(() => {
    if (canvas.current && width > 0) paint(canvas.current, width, height, player, lanes, hits, colourOf);
    // eslint-disable-next-line react-hooks/exhaustive-deps -- lanes follow from the version
  }, [width, height, version, hits, painted, colourOf, player]);
  const place = (event: PointerEvent) => {
    const box = area.current?.getBoundingClientRect();
    return box ? ((event.clientX - box.left) / box.width) * end : 0;
  };
  const now = axis.timeAt(player.position);
  return (
    <div className="flex">
      <div className="shrink-0 pt-1 text-11 leading-4 text-t3 max-sm:hidden" style={{ width: LABEL_PX }} aria-hidden="true">
        {lanes.map((each) => <div key={each.key} className="truncate pr-2 text-right" style={{ height: LANE_PX }}>{text.lane[each.lane]}{each.lane === "edits" || each.lane === "terminal" ? ` · ${authorName(each.author, nameOf)}` : ""}</div>)}
      </div>
      <div ref={area} role="slider" tabIndex={0} aria-label={text.position} aria-valuemin={0} aria-valuemax={Math.round(end / 1000)} aria-valuenow={Math.round(player.position / 1000)} aria-valuetext={text.slider(clockOf(player.position), clockOf(end), player.seq, clock(now))}
        className="relative mx-2 min-w-0 grow cursor-pointer touch-none rounded-row border bg-panel"
        style={{ height }}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          player.seek(place(event));
        }}
        onPointerMove={(event) => {
          if (event.currentTarget.hasPointerCapture(event.pointerId)) player.seek(place(event));
        }}>
        <canvas ref={canvas} aria-hidden="true" className="pointer-events-none absolute inset-0 size-full" />
        {withSeq > 0 && <span className="pointer-events-none absolute inset-y-0 border-l border-dashed border-warn" style={{ left: `${(axis.positionOf(withSeq) / end) * 100}%` }} />}
        <span className="pointer-events-none absolute inset-y-0 -ml-px w-0.5 bg-accent" style={{ left: `${(player.position / end) * 100}%` }}><span className="absolute -top-1 -left-[3px] size-2 rounded-full bg-accent" /></span>
      </div>
    </div>
  );
}

function paint(canvas: HTMLCanvasElement, width: number, height: number, player: Player, lanes: Lane[], hits: readonly number[], colourOf: (by: string) => string): void {
  const { axis, marks } = player.recording;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const resolved = (value: string) => (value.startsWith("var(") ? colour(value.slice(4, -1)) : value);
  const x = (position: number) => 2 + (position / Math.max(1, axis.end)) * (width - 4);
  context.font = "600 11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const gap of axis.gaps) hatch(context, x(gap.from), x(gap.to), height, colour("--line"), colour("--text-3"), colour("--panel"), gap.realMs);
  const places = new Map(lanes.map((each, index) => [each.key, index]));
  const tones: Record<Mark["tone"], string> = { plain: "", agent: colour("--agent"), ok: colour("--ok"), warn: colour("--warn"), bad: colour("--bad") };
  for (const mark of marks) {
    const lane = places.get(mark.lane === "talk" || mark.lane === "tests" ? mark.lane : `${mark.lane}:${mark.author}`);
    if (lane === undefined) continue;
    const [left, top] = [x(axis.positionOf(mark.seq)), 4 + lane * LANE_PX];
    context.fillStyle = tones[mark.tone] || resolved(colourOf(mark.author));
    if (mark.lane === "tests") context.fillText(mark.tone === "ok" ? "✓" : "✗", Math.min(left, width - 10) - 4, top + 8);
    else if (mark.kind === "prompt" || mark.kind === "approval" || mark.kind === "change" || mark.kind === "end") diamond(context, left, top + 8, mark.kind === "prompt" ? 5 : 4);
    else context.fillRect(left - 1, top + (mark.kind ? 3 : 5), 2, mark.kind ? 10 : 6);
  }
  context.fillStyle = colour("--accent");
  for (const seq of hits) context.fillRect(x(axis.positionOf(seq)) - 1, 0, 2, 4);
}

function diamond(context: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  context.beginPath();
  context.moveTo(x, y - size);
  context.lineTo(x + size, y);
  context.lineTo(x, y + size);
  context.lineTo(x - size, y);
  context.fill();
}

function hatch(context: CanvasRenderingContext2D, from: number, to: number, height: number, line: string, ink: string, ground: string, realMs: number): void {
  if (to - from < 1.5) return;
  context.save();
  context.beginPath();
  context.rect(from, 0, to - from, height);
  context.clip();
  context.strokeStyle = line;
  for (let at = from - height; at < to; at += 6) {
    context.beginPath();
    context.moveTo(at, height);
    context.lineTo(at + height, 0);
    context.stroke();
  }
  if (to - from > MIN_GAP_LABEL_PX && realMs >= 10_000) {
    const label = seconds(Math.round(realMs / 1000)).replace(/\.0 s| 0 [ms]$/, (found) => (found === ".0 s" ? " s" : ""));
    const width = context.measureText(label).width;
    const middle = (from + to) / 2;
    context.fillStyle = ground;
    context.fillRect(middle - width / 2 - 2, height / 2 - 7, width + 4, 14);
    context.fillStyle = ink;
    context.fillText(label, middle - width / 2, height / 2);
  }
  context.restore();
}

/** A colour per author, the same everywhere on the page. */
export function coloursOf(marks: readonly Mark[]): (by: string) => string {
  const people = [...new Set(marks.map((each) => each.author))].filter((each) => each && each !== "agent" && each !== "hutch");
  return (by) => (by === "agent" ? "var(--agent)" : by === "hutch" || by === "" ? "var(--text-3)" : `var(--person-${(Math.max(0, people.indexOf(by)) % 8) + 1})`);
}

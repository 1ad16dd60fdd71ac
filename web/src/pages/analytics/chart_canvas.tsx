// The lines or bars of a report on a canvas. This module is loaded when a chart is shown; the tables do not need it.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { text } from "../../strings/analytics";
import { placeOf, rangeOf, stepLengthS } from "./chart_time_positions";
import { type Report, lineName, moment, shown } from "./report_queries";

const HEIGHT_PX = 240;
const PEOPLE = 8; // colours for lines; after them they repeat, dashed
const FONT = '11px system-ui, -apple-system, "Segoe UI", sans-serif';
const DAY_S = 86_400;
const MARK_DASH = [2, 3];

const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** The sum of many lines is in the colour of text. */
const lineColour = (isSum: boolean, at: number) => colour(isSum ? "--text-2" : `--person-${(at % PEOPLE) + 1}`);

type Column = Report["columns"][number];
type Props = { report: Report; column: Column; label: string; readout: (text: string) => void };

export function ChartCanvas({ report, column, label, readout }: Props) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const chart = new uPlot(optionsOf(report, column, element.clientWidth, readout), dataOf(report, column), element);
    const size = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    size.observe(element);
    const redraw = () => chart.redraw(false);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", redraw);
    const theme = new MutationObserver(redraw);
    theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      size.disconnect();
      theme.disconnect();
      dark.removeEventListener("change", redraw);
      chart.destroy();
    };
  }, [report, column, readout]);
  return <div ref={place} role="img" aria-label={label} data-chart={column.name} className="min-w-0" style={{ height: HEIGHT_PX }} />;
}

function dataOf(report: Report, column: Column): uPlot.AlignedData {
  return [report.times_ms.map((at) => at / 1000), ...report.series.map((line) => line.values[column.name] ?? [])];
}

function optionsOf(report: Report, column: Column, width: number, readout: (text: string) => void): uPlot.Options {
  const isAlone = report.series.length === 1;
  const isCounted = column.unit === "count" || column.unit === "usd" || column.unit === "tokens";
  const bars = isAlone && isCounted && uPlot.paths.bars ? { paths: uPlot.paths.bars({ size: [0.7, 48] }), points: { show: false } } : {};
  const axis = { stroke: () => colour("--text-3"), font: FONT, grid: { stroke: () => colour("--line"), width: 1 }, ticks: { stroke: () => colour("--line"), width: 1 } };
  const stepS = stepLengthS(report);
  return {
    width,
    height: HEIGHT_PX,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    legend: { show: false },
    cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { size: 7 } },
    scales: { x: { range: (_, min, max) => rangeOf(min, max, stepS) }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [{ ...axis, space: 70, values: (_, splits, __, ___, stepS) => splits.map((at) => timeMark(at * 1000, stepS)) }, { ...axis, size: 64, values: (_, splits) => splits.map((value) => shown(value, column.unit)) }],
    series: [{}, ...report.series.map((line, at): uPlot.Series => {
      const isSum = line.key === "" && !isAlone;
      const number = report.series[0]?.key === "" && !isAlone ? at - 1 : at;
      const isDashed = isSum || number >= PEOPLE;
      return {
        label: lineName(report, line),
        stroke: () => lineColour(isSum, number),
        width: isSum ? 1 : 2,
        ...(isDashed ? { dash: [6, 4] } : {}),
        points: { size: 5 },
        ...(bars.paths ? { ...bars, fill: () => lineColour(isSum, number) } : {}),
      };
    })],
    hooks: {
      draw: [(chart) => drawMarks(chart, report)],
      setCursor: [(chart) => readout(readoutOf(report, column, chart.cursor.idx))],
    },
  };
}

/** A date, or the time within a day, in UTC. */
function timeMark(atMs: number, stepS: number): string {
  const iso = new Date(atMs).toISOString();
  return stepS >= DAY_S || iso.slice(11, 16) === "00:00" ? iso.slice(5, 10) : iso.slice(11, 16);
}

/** A dashed line for each annotation. Their texts are listed below the chart. */
function drawMarks(chart: uPlot, report: Report): void {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.strokeStyle = colour("--warn");
  ctx.fillStyle = colour("--warn");
  ctx.lineWidth = devicePixelRatio;
  const stepS = stepLengthS(report);
  ctx.setLineDash(MARK_DASH.map((each) => each * devicePixelRatio));
  for (const { at_ms } of report.annotations) {
    const x = Math.round(chart.valToPos(placeOf(at_ms, stepS), "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillRect(x - 3 * devicePixelRatio, bbox.top, 6 * devicePixelRatio, 6 * devicePixelRatio);
  }
  ctx.restore();
}

function readoutOf(report: Report, column: Column, index: number | null | undefined): string {
  if (index === null || index === undefined) return "";
  const values = report.series.map((line) => ({ name: lineName(report, line), value: line.values[column.name]?.[index] })).filter(({ value }) => value);
  const listed = values.map(({ name, value }) => `${name} ${shown(value, column.unit)}`).join(" · ");
  return `${moment(report.times_ms[index] ?? 0, report.step)}: ${listed || text.noneInTime}`;
}

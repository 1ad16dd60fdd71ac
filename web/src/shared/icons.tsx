// Icons on a grid of 16, drawn with the colour of their text. Always beside a word or with a label on their button.
const PATHS = {
  home: "M2.5 7.5 8 3l5.5 4.5V13a.5.5 0 0 1-.5.5H3a.5.5 0 0 1-.5-.5zM6.5 13.5v-4h3v4",
  list: "M2.5 4h11M2.5 8h11M2.5 12h7",
  board: "M2.5 3h3v10h-3zM6.5 3h3v6h-3zM10.5 3h3v8h-3z",
  diff: "M8 3v6M5 6h6M5 12.5h6",
  split: "M2.5 3h11v10h-11zM8 3v10",
  unified: "M2.5 3h11v10h-11zM5 6.5h6M5 9.5h6",
  play: "M5 3.5v9l7-4.5z",
  gear: "M8 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4zM8 1.8v2M8 12.2v2M1.8 8h2M12.2 8h2M3.6 3.6 5 5M11 11l1.4 1.4M12.4 3.6 11 5M5 11l-1.4 1.4",
  plus: "M8 3v10M3 8h10",
  stop: "M4.5 4.5h7v7h-7z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  toStart: "M11.5 4l-5 4 5 4M4.5 4v8",
  toEnd: "M4.5 4l5 4-5 4M11.5 4v8",
  chart: "M2.5 13.5h11M4.5 11V7.5M8 11V3M11.5 11V5.5",
  bell: "M4 11V7.5a4 4 0 0 1 8 0V11l1 1.5H3zM6.8 14h2.4",
  chevron: "M6 4l4 4-4 4",
  down: "M4 6l4 4 4-4",
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
  folder: "M2 4.5h4l1.5 1.5H14v7H2z",
  edit: "M3 13l.7-2.9 7.2-7.2 2.2 2.2-7.2 7.2z",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3 13.5 13.5",
  terminal: "M3 4.5 6.5 8 3 11.5M8 12h5",
  test: "M6 2.5h4M7 2.5v4L3.5 12a1 1 0 0 0 .9 1.5h7.2a1 1 0 0 0 .9-1.5L9 6.5v-4M5.3 9.5h5.4",
  question: "M5.5 6a2.5 2.5 0 1 1 3.6 2.2c-.7.4-1.1.8-1.1 1.6M8 12.4v.2",
  ask: "M8 2.2 14 13H2zM8 6.5v3M8 11.2v.2",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  undo: "M5.5 3.5 2.5 6.5l3 3M2.5 6.5h7a4 4 0 0 1 0 8H7",
  redo: "M10.5 3.5l3 3-3 3M13.5 6.5h-7a4 4 0 0 0 0 8H9",
  fork: "M4.5 2.5v3.2c0 1.3 1 2.3 2.3 2.3h2.4c1.3 0 2.3-1 2.3-2.3V2.5M8 8v5.5",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  send: "M2.5 8h10M8.5 4l4 4-4 4",
  bug: "M8 4.5a3 3 0 0 1 3 3V10a3 3 0 0 1-6 0V7.5a3 3 0 0 1 3-3zM8 7v6M2.5 9H5M11 9h2.5M3.5 5 5.6 6.5M12.5 5l-2.1 1.5M3.5 13l2.1-1.6M12.5 13l-2.1-1.6M6.2 4.9 5.5 3M9.8 4.9l.7-1.9",
  globe: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM2 8h12M8 2c2 2 2.6 4 2.6 6S10 12 8 14C6 12 5.4 10 5.4 8S6 4 8 2z",
  log: "M3 3.5h10M3 6.5h10M3 9.5h6M3 12.5h8",
  max: "M9.5 2.5h4v4M6.5 13.5h-4v-4M13.5 2.5 9 7M2.5 13.5 7 9",
  key: "M10.5 9.5a4 4 0 1 0-3.6-2.2L2.5 11.7v1.8h2v-1.5h1.5v-1.5h1.3l.7-.7a4 4 0 0 0 2.5.7zM11 5h.01",
  person: "M8 8a2.6 2.6 0 1 0 0-5.2A2.6 2.6 0 0 0 8 8zM3 13.5c.5-2.6 2.4-4 5-4s4.5 1.4 5 4",
  interview: "M2.5 3.5h8v6h-4l-2.5 2.5v-2.5h-1.5zM12.5 6.5h1v5h-1.2v2l-2.3-2h-2",
  spark: "M8 2v4M8 10v4M2 8h4M10 8h4",
  download: "M8 2.5v7M5 7l3 3 3-3M3 13h10",
  save: "M3 3h8l2 2v8H3zM5.5 3v3.5h5V3M5.5 13V9.5h5V13",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16, className = "" }: { name: IconName; size?: number; className?: string }) {
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true" className={`shrink-0 ${className}`}>
      <path d={PATHS[name]} />
    </svg>
  );
}

// Open files, their order, and their scroll positions. They survive a reload.
import { useEffect, useState } from "react";

const MAX_TABS = 12;
type Tabs = { open: string[]; preview: string; shown?: string }; // the preview gives way to the next file

function read<T>(key: string, otherwise: T): T {
  try {
    return (JSON.parse(sessionStorage.getItem(key) ?? "null") as T | null) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function useTabs(session: string, path: string) {
  const key = `hutch.tabs.${session}`;
  const [tabs, setTabs] = useState<Tabs>(() => {
    const stored = read<Tabs | string[]>(key, { open: [], preview: "" });
    return Array.isArray(stored) ? { open: stored, preview: "" } : stored;
  });
  if (path && !tabs.open.includes(path)) {
    const open = tabs.open.filter((each) => each !== tabs.preview);
    setTabs({ open: [...open, path].slice(-MAX_TABS), preview: path, shown: path });
  }
  if (path && tabs.open.includes(path) && tabs.shown !== path) setTabs({ ...tabs, shown: path });
  useEffect(() => sessionStorage.setItem(key, JSON.stringify(tabs)), [key, tabs]);
  return {
    tabs: tabs.open,
    preview: tabs.preview,
    /** The one that was shown last, also before a reload or another page. */
    shown: tabs.shown && tabs.open.includes(tabs.shown) ? tabs.shown : tabs.open.at(-1) ?? "",
    keep: (kept: string) => { if (tabs.preview === kept) setTabs({ ...tabs, preview: "" }); },
    /** Close a tab. Returns the one that takes its place. */
    close: (closed: string): string => {
      const open = tabs.open.filter((each) => each !== closed);
      setTabs({ ...tabs, open, preview: tabs.preview === closed ? "" : tabs.preview });
      return open[Math.max(0, tabs.open.indexOf(closed) - 1)] ?? "";
    },
  };
}

export type Place = { top: number; head: number };
export const storedPlace = (session: string, path: string) => read<Place | null>(`hutch.place.${session}.${path}`, null);
export const keepPlace = (session: string, path: string, place: Place) => sessionStorage.setItem(`hutch.place.${session}.${path}`, JSON.stringify(place));

// The commands of the open page, for the palette. A page offers its commands while it is shown.
import { useEffect } from "react";
import type { IconName } from "./icons";

export type PageCommand = { label: string; detail?: string; icon: IconName; keys?: string; run: () => void };

const offered = new Set<() => PageCommand[]>();

export function usePageCommands(commands: PageCommand[]): void {
  useEffect(() => {
    const read = () => commands;
    offered.add(read);
    return () => { offered.delete(read); };
  });
}

export const pageCommands = () => [...offered].flatMap((read) => read());

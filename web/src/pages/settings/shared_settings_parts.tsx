// Shared parts of the sections of the settings.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { strings } from "../../strings";

const text = strings.settings;
export const CHOICE = "mt-1 block h-7 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1 pointer-coarse:h-11";

export function Card({ title, about, children }: { title: string; about?: string; children: ReactNode }) {
  return (
    <section aria-label={title} className="rounded-card border bg-panel p-4">
      <h2 className="text-14 font-semibold">{title}</h2>
      {about && <p className="meta mt-0.5">{about}</p>}
      <div className="mt-3">{children}</div>
    </section>
  );
}

export function Table({ head, rows, empty }: { head: string[]; rows: ReactNode[][]; empty: string }) {
  if (rows.length === 0) return <p className="text-t2">{empty}</p>;
  return (
    <div className="relative overflow-x-auto rounded-card border bg-panel" tabIndex={0} role="group" aria-label={head.join(", ")}>
      <table className="w-full border-collapse text-left">
        <thead><tr className="border-b bg-code text-12 text-t2">{head.map((each) => <th key={each} className="h-7 px-3 font-semibold whitespace-nowrap">{each || <span className="sr-only">{text.actions}</span>}</th>)}</tr></thead>
        <tbody>{rows.map((row, index) => <tr key={index} className="border-b last:border-b-0 hover:bg-hover">{row.map((cell, at) => <td key={at} className="h-8 px-3 py-1 align-middle">{cell}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

export function useDo(keys: string[]) {
  const queries = useQueryClient();
  return useMutation({ mutationFn: (act: () => Promise<unknown>) => act(), onSuccess: () => queries.invalidateQueries({ queryKey: keys }) });
}

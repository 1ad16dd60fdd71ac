// Folds a long log in a worker, so that the page stays smooth meanwhile.
import { get } from "../api/http_client";
import { Fold, type SavedFold } from "./fold";
import type { AnyEntry } from "./view_types";

const PAGE_EVENTS = 1000;

export type Order = { session: string; until: number; from: SavedFold | null };
export type Folded = { fold: SavedFold } | { problem: string };

export async function foldWholeLog({ session, until, from }: Order): Promise<Folded> {
  const fold = (from && Fold.restored(from)) ?? new Fold();
  const pageAfter = (seq: number) => get<{ items: AnyEntry[] }>(`/sessions/${session}/events?after=${seq}&limit=${PAGE_EVENTS}`);
  let next = pageAfter(fold.view.seq);
  while (fold.view.seq < until) {
    const { items } = await next;
    const last = items.at(-1);
    if (!last) break;
    if (last.seq < until) next = pageAfter(last.seq); // it is read while this one is folded
    fold.entries(items.filter((entry) => entry.seq <= until));
  }
  return { fold: fold.save() };
}

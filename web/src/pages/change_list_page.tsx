// Every change that the user may see, by state, with a filter. State and filter are in the address.
import { useDeferredValue, useEffect, useRef } from "react";
import { useLocation, useSearchParams } from "wouter";
import { useAllChanges } from "../api/queries";
import { repositoryName } from "../display_format";
import { Button, Field } from "../shared/form_controls";
import { Icon } from "../shared/icons";
import { useNow } from "../shared/current_time";
import { ProblemLine } from "../shared/error_message";
import { setPageTitle } from "../shared/page_title";
import { strings } from "../strings";
import { ChangeRow } from "./proposed_change_row";
import { useHomeKeys } from "./home_keys";

const text = strings.changeList;

export function ChangesPage() {
  const [params, setParams] = useSearchParams();
  const [, go] = useLocation();
  const state = params.get("state") ?? "";
  const filter = params.get("q") ?? "";
  const words = useDeferredValue(filter.trim().toLowerCase());
  const changes = useAllChanges(state);
  const now = useNow();
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  useHomeKeys({ field, list, toggle: () => {}, create: () => go("/new") });
  useEffect(() => {
    setPageTitle(text.title);
  }, []);
  const set = (name: string, value: string) => setParams((before) => {
    const after = new URLSearchParams(before);
    if (value) after.set(name, value);
    else after.delete(name);
    return after;
  }, { replace: true });
  const all = changes.data?.pages.flatMap((page) => page.items) ?? [];
  const shown = all.filter((each) => words.split(/\s+/).every((word) => `${each.title} ${each.branch} ${repositoryName(each.repository)}`.toLowerCase().includes(word)));
  return (
    <main className="flex h-full flex-col" aria-label={text.title}>
      <header className="flex flex-wrap items-center gap-2 border-b bg-panel px-3 py-2">
        <h1 className="text-14 font-semibold">{text.title}</h1>
        <label className="relative flex min-w-40 grow items-center sm:max-w-sm">
          <Icon name="search" size={14} className="absolute left-2 text-t3" />
          <span className="sr-only">{text.filter}</span>
          <Field ref={field} type="search" value={filter} placeholder={text.filter} onChange={(event) => set("q", event.target.value)} className="w-full pl-7" aria-keyshortcuts="/" />
        </label>
        <select aria-label={text.state} value={state} onChange={(event) => set("state", event.target.value)} className="h-7 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1 pointer-coarse:h-11">
          <option value="">{text.anyState}</option>
          {Object.entries(text.states).map(([key, name]) => <option key={key} value={key}>{name}</option>)}
        </select>
      </header>
      <div ref={list} className="min-h-0 grow overflow-auto pb-6">
        {changes.isError && <div className="p-3"><ProblemLine error={changes.error} retry={() => void changes.refetch()} /></div>}
        {changes.isSuccess && shown.length === 0 && (words || state ? <p className="mt-[18vh] p-6 text-center text-t2">{text.nothing}</p> : <Empty create={() => go("/new")} />)}
        <ul>{shown.map((each) => <ChangeRow key={each.id} change={each} now={now} withState />)}</ul>
        {changes.hasNextPage && <div className="p-3"><Button kind="quiet" onClick={() => void changes.fetchNextPage()}>{text.more}</Button></div>}
      </div>
    </main>
  );
}

function Empty({ create }: { create: () => void }) {
  return (
    <div className="mx-auto mt-[18vh] max-w-xl p-6 text-center">
      <p className="text-16">{text.empty}</p>
      <p className="mt-1 mb-4 text-t2">{text.teach}</p>
      <Button kind="primary" icon="plus" onClick={create}>{strings.home.new}</Button>
    </div>
  );
}

// The person's saved filters of tasks: chosen from a list, saved under a name, deleted. The command line has the same ones.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { type Schemas, get, post, send } from "../../api/http_client";
import { Dialog } from "../../shared/dialog";
import { ProblemLine } from "../../shared/error_message";
import { Button, Field, IconButton } from "../../shared/form_controls";
import { text } from "../../strings/tasks";
import { Choice } from "./task_filters";
import { type Filter, isFiltered } from "./task_values_filter_and_order";

type Saved = Schemas["SavedFilter"];
const KEY = ["task-filters"];
const MAX_NAME_CHARS = 100;
const addressOf = (name: string) => `/task-filters/${encodeURIComponent(name)}`;

/** A stored filter as the parts of the address. */
const partsOf = ({ query }: Saved) => ({ q: query.text ?? "", repository: query.repository ?? "", owner: query.owner ?? "", label: query.label ?? "", priority: query.priority ?? "" });
const isSame = (saved: Saved, filter: Filter) => {
  const { q, ...rest } = partsOf(saved);
  return q === filter.words && Object.entries(rest).every(([name, value]) => filter[name as keyof Filter] === value);
};

export function SavedFilters({ filter, set }: { filter: Filter; set: (parts: Record<string, string>) => void }) {
  const queries = useQueryClient();
  const [naming, setNaming] = useState(false);
  const saved = useQuery({ queryKey: KEY, queryFn: async () => (await get<Schemas["SavedFilters"]>("/task-filters")).items, staleTime: 60_000 });
  const remove = useMutation({ mutationFn: (name: string) => send(addressOf(name), { method: "DELETE" }), onSettled: () => queries.invalidateQueries({ queryKey: KEY }) });
  const items = saved.data ?? [];
  const current = items.find((each) => isSame(each, filter));
  if (items.length === 0 && !isFiltered(filter)) return null;
  const choose = (name: string) => {
    const chosen = items.find((each) => each.name === name);
    set(chosen ? partsOf(chosen) : { q: "", repository: "", owner: "", label: "", priority: "" });
  };
  return (
    <>
      {items.length > 0 && <Choice label={text.saved.title} value={current?.name ?? ""} onChange={choose} options={[["", text.saved.title], ...items.map((each): [string, string] => [each.name, each.name])]} />}
      {isFiltered(filter) && !current && <IconButton icon="save" label={text.saved.save} onClick={() => setNaming(true)} />}
      {current && <IconButton icon="cross" label={text.saved.remove} onClick={() => remove.mutate(current.name)} />}
      {remove.isError && <ProblemLine error={remove.error} />}
      {naming && <NameDialog filter={filter} onClose={() => setNaming(false)} />}
    </>
  );
}

function NameDialog({ filter, onClose }: { filter: Filter; onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const { words, ...rest } = filter;
  const save = useMutation({
    mutationFn: () => post(addressOf(name.trim()), { text: words, ...rest }, "PUT"),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: KEY });
      onClose();
    },
  });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Dialog title={text.saved.save} onClose={onClose}>
      <form onSubmit={submit} className="space-y-3">
        <label className="block text-12 text-t2">{text.saved.name}
          <Field autoFocus required maxLength={MAX_NAME_CHARS} pattern="[^\/]+" title={text.saved.nameRule} value={name} onChange={(event) => setName(event.target.value)} className="mt-1 w-full" />
        </label>
        <p className="meta">{text.saved.about}</p>
        {save.isError && <ProblemLine error={save.error} />}
        <div className="flex justify-end gap-2">
          <Button kind="quiet" onClick={onClose}>{text.page.cancel}</Button>
          <Button type="submit" kind="primary" disabled={save.isPending}>{text.page.save}</Button>
        </div>
      </form>
    </Dialog>
  );
}

// Filters of the events: by type, repository, user and text. The address contains them.
import { type KeyboardEvent, type RefObject, useEffect, useState } from "react";
import type { Schemas } from "../../api/http_client";
import { useUsers } from "../../api/queries";
import { Field, IconButton } from "../../shared/form_controls";
import { SafeText } from "../../shared/safe_text";
import { text as all } from "../../strings/analytics";
import { Choice } from "../analytics/report_filters";

const text = all.activity;
const SETTLE_MS = 500;
const MAX_TYPES = 20;

type Props = { params: URLSearchParams; types: string[]; seen: string[]; repositories: string[]; user: Schemas["User"]; field: RefObject<HTMLInputElement | null>; set: (name: string, values: string[]) => void };

export function ActivityFilters({ params, types, seen, repositories, user, field, set }: Props) {
  const isOwner = user.role === "owner";
  const users = useUsers(isOwner);
  const one = (name: string) => params.get(name) ?? "";
  return (
    <div role="group" aria-label={all.filters} className="flex flex-wrap items-center gap-2">
      <Settled label={text.words} type="search" field={field} value={one("q")} commit={(value) => set("q", value ? [value] : [])} className="w-44" />
      <TypeField seen={seen} add={(type) => set("type", [...new Set([...types, type])].slice(0, MAX_TYPES))} />
      <Settled label={text.repository} value={one("repository")} commit={(value) => set("repository", value ? [value] : [])} list={repositories} className="w-52" />
      {isOwner ? <Choice label={text.user} value={one("user")} onChange={(value) => set("user", value ? [value] : [])} options={[["", text.anyUser], ...(users.data ?? []).map((each): [string, string] => [each.name, each.name]), ...(one("user") && !users.data?.some((each) => each.name === one("user")) ? [[one("user"), one("user")] as [string, string]] : [])]} /> : <Settled label={text.user} value={one("user")} commit={(value) => set("user", value ? [value] : [])} className="w-32" />}
      {types.map((type) => (
        <span key={type} className="inline-flex h-7 items-center gap-1 rounded-row bg-selected pl-2 text-12">
          <SafeText text={text.groups[type] ?? type} oneLine />
          <IconButton icon="cross" size={12} label={all.remove(text.groups[type] ?? type)} onClick={() => set("type", types.filter((each) => each !== type))} />
        </span>
      ))}
    </div>
  );
}

/** A type, or a group of types that ends with a dot. Enter adds it. */
function TypeField({ seen, add }: { seen: string[]; add: (type: string) => void }) {
  const [typed, setTyped] = useState("");
  const known = [...Object.keys(text.groups), ...seen];
  const commit = (value: string) => {
    if (!value.trim()) return;
    add(value.trim());
    setTyped("");
  };
  const change = (value: string) => (known.includes(value) && value !== typed && !value.startsWith(typed.slice(0, -1)) ? commit(value) : setTyped(value));
  return (
    <>
      <Field aria-label={text.type} placeholder={text.typeHint} list="activity-types" value={typed} onChange={(event) => change(event.target.value)} onBlur={() => commit(typed)} onKeyDown={(event) => { if (event.key === "Enter") commit(typed); }} className="w-40" />
      <datalist id="activity-types">{known.map((each) => <option key={each} value={each}>{text.groups[each] ?? ""}</option>)}</datalist>
    </>
  );
}

type SettledProps = { label: string; value: string; commit: (value: string) => void; type?: string; list?: string[]; field?: RefObject<HTMLInputElement | null>; className: string };

/** A field that acts a moment after the last key, at Enter, and when it is left: each change asks the server anew. */
function Settled({ label, value, commit, type = "text", list, field, className }: SettledProps) {
  const [draft, setDraft] = useState({ of: value, typed: value });
  const typed = draft.of === value ? draft.typed : value; // the address was changed elsewhere
  const isChanged = typed.trim() !== value;
  useEffect(() => {
    if (!isChanged) return;
    const timer = setTimeout(() => commit(typed.trim()), SETTLE_MS);
    return () => clearTimeout(timer);
  });
  const now = () => { if (isChanged) commit(typed.trim()); };
  const onKey = (event: KeyboardEvent) => { if (event.key === "Enter") now(); };
  const id = `activity-${label.toLowerCase()}`;
  return (
    <>
      <Field {...(field ? { ref: field } : {})} type={type} aria-label={label} placeholder={label} value={typed} onChange={(event) => setDraft({ of: value, typed: event.target.value })} onBlur={now} onKeyDown={onKey} {...(list ? { list: id } : {})} className={className} />
      {list && <datalist id={id}>{list.map((each) => <option key={each} value={each} />)}</datalist>}
    </>
  );
}

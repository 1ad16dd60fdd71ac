// The branch of a new session: the repository's branches to choose from, and any other revision as text.
import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { type Schemas, asProblem, get } from "../api/http_client";
import { Field } from "../shared/form_controls";
import { SafeText } from "../shared/safe_text";
import { strings } from "../strings";

const MAX_SHOWN = 50;
const LIST_ID = "branch-list";

type Props = { repository: string; value: string; onChange: (value: string) => void };

export function BranchField({ repository, value, onChange }: Props) {
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const list = useRef<HTMLUListElement>(null);
  // The repository is asked when the field is used, not at every key of its address.
  const found = useQuery({
    queryKey: ["branches", repository],
    enabled: open && repository !== "",
    queryFn: ({ signal }) => get<Schemas["Branches"]>(`/repository-branches?repository=${encodeURIComponent(repository)}`, signal),
    staleTime: 60_000,
    retry: false,
  });
  const names = found.data?.branches ?? [];
  const fits = names.includes(value) ? names : names.filter((name) => name.toLowerCase().includes(value.trim().toLowerCase()));
  const shown = fits.slice(0, MAX_SHOWN);
  const isShown = open && shown.length > 0;
  useEffect(() => {
    list.current?.children[at]?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const status = open && repository ? statusOf(found.isFetching, found.error, shown.length, fits.length, found.data?.more ?? false) : "";
  const close = () => {
    setOpen(false);
    setAt(-1);
  };
  const pick = (name: string) => {
    onChange(name);
    close();
  };
  function onKey(event: KeyboardEvent) {
    const chosen = shown[at];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      setOpen(true);
      if (isShown) setAt((at + (event.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1) + shown.length) % shown.length);
    } else if (event.key === "Enter" && isShown && chosen !== undefined) pick(chosen);
    else if (event.key === "Escape" && isShown) close();
    else return;
    event.preventDefault();
  }
  return (
    <div className="relative mt-2 text-12 text-t2">
      <label className="flex items-center gap-2">
        <span className="shrink-0">{strings.create.revision}</span>
        <Field value={value} onChange={(event) => { onChange(event.target.value); setOpen(true); setAt(-1); }} onFocus={() => setOpen(true)} onClick={() => setOpen(true)} onBlur={close} onKeyDown={onKey} placeholder={found.data?.default ?? strings.create.revisionHint} autoComplete="off" className="w-full font-mono text-12"
          role="combobox" aria-autocomplete="list" aria-expanded={isShown} aria-controls={LIST_ID} {...(isShown && at >= 0 ? { "aria-activedescendant": `branch-${at}` } : {})} />
      </label>
      {/* Over the page, so that nothing moves under the pointer when it closes. */}
      <div className={`absolute inset-x-0 top-full z-10 mt-1 rounded-card border bg-raised p-1 shadow-menu ${isShown || status ? "" : "hidden"}`}>
        {isShown && (
          <ul ref={list} id={LIST_ID} role="listbox" aria-label={strings.create.branches} className="max-h-32 overflow-auto">
            {shown.map((name, index) => (
              <li key={name} id={`branch-${index}`} role="option" aria-selected={index === at} onPointerDown={(event) => { event.preventDefault(); pick(name); }} className={`flex h-6 items-center gap-2 rounded-row px-2 ${index === at ? "bg-selected" : "hover:bg-hover"}`}>
                <code className="min-w-0 truncate text-t1"><SafeText text={name} /></code>
                {name === found.data?.default && <span className="meta">{strings.create.defaultBranch}</span>}
              </li>
            ))}
          </ul>
        )}
        <p role="status" className="meta px-2 empty:hidden">{status}</p>
      </div>
    </div>
  );
}

function statusOf(isAsking: boolean, error: unknown, shown: number, fits: number, more: boolean): string {
  if (isAsking) return strings.create.askingBranches;
  if (error) return strings.create.noBranches(asProblem(error).message);
  if (shown === 0) return strings.create.noneFits;
  return fits > shown || more ? strings.create.moreBranches(shown) : "";
}

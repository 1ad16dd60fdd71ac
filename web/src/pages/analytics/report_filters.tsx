// Grouping, time and filters of a report. All are in the address, so a report can be linked to.
import { useState } from "react";
import { Button, Field as TextField, IconButton } from "../../shared/form_controls";
import { SafeText, showHidden } from "../../shared/safe_text";
import { text } from "../../strings/analytics";
import { type ReportRequest, type Field, useFilterValues } from "./report_queries";

const SELECT = "h-7 max-w-44 rounded-row border border-edge bg-panel px-1.5 text-13 text-t1 pointer-coarse:h-11";
const DAY_MS = 86_400_000;

export function Choice({ label, value, options, onChange }: { label: string; value: string; options: [string, string][]; onChange: (value: string) => void }) {
  return (
    <select aria-label={label} title={label} value={value} onChange={(event) => onChange(event.target.value)} className={SELECT}>
      {options.map(([key, name]) => <option key={key} value={key}>{showHidden(name)}</option>)}
    </select>
  );
}

export function ReportFilters({ request, labels }: { request: ReportRequest; labels: ReadonlyMap<string, string> }) {
  const isKnown = request.since in text.periods && !request.until;
  const day = (agoDays: number) => new Date(Date.now() - agoDays * DAY_MS).toISOString().slice(0, 10);
  const setPeriod = (period: string) => request.set(period === "custom" ? { since: day(7), until: day(-1), step: "" } : { since: period === "30d" ? "" : period, until: "", step: "" });
  return (
    <div role="group" aria-label={text.filters} className="flex flex-wrap items-center gap-2">
      {request.groups.length > 1 && <Choice label={text.by} value={request.group} onChange={(group) => request.set({ by: group === "all" ? "" : group, sort: "" })} options={request.groups.map((each) => [each, text.groups[each] ?? each])} />}
      <Choice label={text.period} value={isKnown ? request.since : "custom"} onChange={setPeriod} options={Object.entries(text.periods)} />
      {!isKnown && <Dates request={request} />}
      <Choice label={text.step} value={request.step} onChange={(step) => request.set({ step })} options={Object.entries(text.steps)} />
      <OnlyChoice request={request} />
      {request.only.map(([field, value]) => {
        const name = `${text.fields[field] ?? field}: ${labels.get(value) ?? value}`;
        return (
          <span key={field} className="inline-flex h-7 max-w-72 items-center gap-1 rounded-row bg-selected pl-2 text-12">
            <span className="truncate" title={showHidden(name)}><SafeText text={name} oneLine /></span>
            <IconButton icon="cross" size={12} label={text.remove(name)} onClick={() => request.set({ [field]: "" })} />
          </span>
        );
      })}
      {request.only.length > 1 && <Button kind="quiet" small onClick={() => request.set(Object.fromEntries(request.only.map(([field]) => [field, ""])))}>{text.clear}</Button>}
    </div>
  );
}

/** The begin and the end as dates. Another value, such as an age in a link, can be replaced by a date. */
function Dates({ request }: { request: ReportRequest }) {
  const fields: [string, string, string][] = [["since", text.from, request.since], ["until", text.to, request.until]];
  return fields.map(([name, label, value]) => (
    <label key={name} className="flex items-center gap-1 text-12 text-t2">
      {label}
      <TextField type="date" value={value.slice(0, 10)} onChange={(event) => request.set({ [name]: event.target.value })} />
    </label>
  ));
}

/** First the field, then its value. */
function OnlyChoice({ request }: { request: ReportRequest }) {
  const [field, setField] = useState<Field | "">("");
  const values = useFilterValues(field, request);
  const unused = request.fields.filter((each) => !request.only.some(([used]) => used === each));
  if (unused.length === 0) return null;
  return (
    <>
      <Choice label={text.only} value={field} onChange={(chosen) => setField(chosen as Field | "")} options={[["", text.only], ...unused.map((each): [string, string] => [each, text.onlyOne(text.fields[each] ?? each)])]} />
      {field && values.isSuccess && values.data.length === 0 && <span role="status" className="text-12 text-t2">{text.noValues}</span>}
      {field && values.isSuccess && values.data.length > 0 && <Choice label={text.onlyOne(text.fields[field] ?? field)} value="" onChange={(value) => { request.set({ [field]: value }); setField(""); }} options={[["", text.choose], ...values.data]} />}
    </>
  );
}

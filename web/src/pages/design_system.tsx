// The design system: the colours, type, space and parts that every page is made of, in the theme that is on.
import { type ReactNode, useEffect, useState } from "react";
import { Added, Badge, Button, Field, IconButton, Keys } from "../shared/form_controls";
import { Icon } from "../shared/icons";
import { ProblemLine } from "../shared/error_message";
import { setPageTitle } from "../shared/page_title";
import { type State, StateMark } from "../shared/session_state_mark";
import { text } from "../strings/design_system";
import { strings } from "../strings";

const SURFACES = ["frame", "panel", "raised", "code", "hover", "selected"];
const INKS = ["text-1", "text-2", "text-3", "link", "accent", "ok", "warn", "bad", "info", "agent"];
const TINTED = ["ok", "warn", "bad", "info", "agent"];
const PEOPLE = [1, 2, 3, 4, 5, 6, 7, 8].map((number) => `person-${number}`);
const SYNTAX = ["keyword", "string", "number", "comment", "function", "type", "property", "tag", "invalid"].map((name) => `syn-${name}`);
const SIZES = [["11", "text-11"], ["12", "text-12"], ["13", "text-13"], ["14", "text-14"], ["16", "text-16"], ["20", "text-20"]] as const;
const SPACES = [2, 4, 8, 12, 16, 24, 32];
const STATES: State[] = ["waiting", "running", "starting", "queued", "idle", "paused", "parked", "ended"];

export function DesignSystem() {
  useEffect(() => setPageTitle(text.title), []);
  return (
    <main className="h-full overflow-auto bg-panel" aria-label={text.title}>
      <div className="mx-auto flex max-w-5xl flex-col gap-6 p-6">
        <header>
          <h1 className="text-20 font-semibold">{text.title}</h1>
          <p className="max-w-[72ch] text-t2">{text.about}</p>
        </header>
        <Part title={text.surfaces}><Swatches names={SURFACES} /></Part>
        <Part title={text.inks} about={text.contrast}><Inks names={INKS} /></Part>
        <Part title={text.tints} about={text.tintsAbout}><Inks names={TINTED} on="-tint" /></Part>
        <Part title={text.people}><Inks names={PEOPLE} /></Part>
        <Part title={text.syntax} about={text.syntaxAbout}><Inks names={SYNTAX} behind="code" /></Part>
        <Part title={text.type} about={text.typeAbout}>
          {SIZES.map(([px, name]) => <p key={px} className={name}><span className="inline-block w-10 text-t3">{px}</span>{text.sample} <b className="font-semibold">{text.sample}</b></p>)}
          <p><span className="inline-block w-10 text-12 text-t3">12</span><code>{text.code}</code></p>
        </Part>
        <Part title={text.space} about={text.spaceAbout}>
          <div className="flex flex-wrap items-end gap-4">{SPACES.map((px) => <span key={px} className="meta flex flex-col items-center gap-1"><span className="bg-accent" style={{ width: px, height: px }} />{px}</span>)}</div>
        </Part>
        <Part title={text.buttons} about={text.buttonsAbout}>
          <div className="flex flex-wrap items-center gap-2">
            <Button kind="primary" icon="plus" keys="c">{strings.home.new}</Button>
            <Button icon="undo">{strings.session.undoRun}</Button>
            <Button kind="quiet">{strings.session.cancel}</Button>
            <Button kind="danger">{strings.approval.deny}</Button>
            <Button small>{text.small}</Button>
            <Button disabled>{text.disabled}</Button>
            <IconButton icon="copy" label={text.iconButton} />
            <Field aria-label={text.field} placeholder={text.field} />
            <Keys keys="Ctrl K" />
          </div>
        </Part>
        <Part title={text.states} about={text.statesAbout}>
          <div className="flex flex-wrap gap-4">{STATES.map((state) => <StateMark key={state} state={state} />)}</div>
          <div className="flex flex-wrap items-center gap-2"><Badge>{text.badge}</Badge>{(["ok", "warn", "bad", "info", "agent"] as const).map((tone) => <Badge key={tone} tone={tone}>{tone}</Badge>)}<Added added={4} deleted={1} /></div>
          <ProblemLine error={new Error(text.problem)} retry={() => undefined} />
          <div className="skeleton h-3 w-64" aria-hidden="true" />
        </Part>
        <Part title={text.rows} about={text.rowsAbout}>
          <ul className="border-t">
            {(["idle", "running"] as const).map((state, index) => (
              <li key={state} className={`flex h-8 items-center gap-2 border-b px-3 pointer-coarse:h-11 ${index ? "bg-selected" : "hover:bg-hover"}`}><StateMark state={state} word={false} /><span className="font-semibold">{text.sample}</span><span className="grow text-t2">{text.detail}</span><Icon name="chevron" size={12} className="text-t3" /></li>
            ))}
          </ul>
        </Part>
      </div>
    </main>
  );
}

function Part({ title, about, children }: { title: string; about?: string; children: ReactNode }) {
  return (
    <section aria-label={title} className="flex flex-col gap-2">
      <h2 className="text-14 font-semibold">{title}</h2>
      {about && <p className="meta max-w-[72ch]">{about}</p>}
      {children}
    </section>
  );
}

/** The values of these tokens, in the theme that is on. */
function useTokens(names: readonly string[]): Record<string, string> {
  const [values, setValues] = useState<Record<string, string>>({});
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const read = () => {
      const style = getComputedStyle(document.documentElement);
      setValues(Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()])));
    };
    read();
    dark.addEventListener("change", read);
    window.addEventListener("hutch:theme", read);
    return () => {
      dark.removeEventListener("change", read);
      window.removeEventListener("hutch:theme", read);
    };
  }, [names]);
  return values;
}

function Swatches({ names }: { names: readonly string[] }) {
  const values = useTokens(names);
  return (
    <ul className="grid grid-cols-2 gap-2 sm:grid-cols-6">
      {names.map((name) => <li key={name} className="rounded-row border p-2 text-12" style={{ background: `var(--${name})` }}>{name}<br /><code className="text-t2">{values[name]}</code></li>)}
    </ul>
  );
}

/** Text of each colour, with its contrast to what is behind it. */
function Inks({ names, on = "", behind = "panel" }: { names: readonly string[]; on?: string; behind?: string }) {
  const [all] = useState(() => [...names, ...names.map((name) => name + on), behind]);
  const values = useTokens(all);
  const under = (name: string) => (on ? name + on : behind);
  return (
    <ul className="grid grid-cols-2 gap-2 sm:grid-cols-5">
      {names.map((name) => (
        <li key={name} className="rounded-row border p-2 text-12" style={{ color: `var(--${name})`, background: `var(--${under(name)})` }}>
          <span className="font-semibold">{name}</span><br />
          <code>{values[name]}</code> · {contrast(values[name] ?? "", values[under(name)] ?? "").toFixed(1)}
        </li>
      ))}
    </ul>
  );
}

/** The contrast of two colours `#rrggbb` or `#rgb`, as WCAG 2 defines it. */
function contrast(first: string, second: string): number {
  const [light = 0, dark = 0] = [luminance(first), luminance(second)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(colour: string): number {
  const digits = colour.length === 4 ? colour.replace(/[0-9a-f]/gi, "$&$&") : colour;
  const part = (at: number) => {
    const value = parseInt(digits.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}

// The dialogs of the palette: one list to go, find and do, and the list of all keys.
import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useDeferredValue, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { type Schemas, get } from "../api/http_client";
import { titleOf } from "../display_format";
import { strings } from "../strings";
import { setTheme } from "../theme";
import { Dialog } from "./dialog";
import { Keys } from "./form_controls";
import { Icon, type IconName } from "./icons";
import { matchRank, ranked } from "./match_ranking";
import { pageCommands } from "./page_commands";
import { pathPattern } from "./typed_path_glob";
import { SafeText } from "./safe_text";
import { SCOPES, SHORTCUTS, type ShortcutId, keysOf } from "./shortcuts";

const MAX_PATHS = 200;

type Entry = { group: string; label: string; detail: string; icon: IconName; keys?: string; run: () => void };

export function KeyList({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={strings.keys.title} onClose={onClose} wide scrolls>
      <div className="grid gap-x-8 gap-y-4 sm:grid-cols-2">
        {SCOPES.map((place) => (
          <section key={place} aria-label={strings.keys[place]}>
            <h3 className="text-12 font-semibold text-t2">{strings.keys[place]}</h3>
            <dl className="mt-1">
              {(Object.keys(SHORTCUTS) as ShortcutId[]).filter((id) => SHORTCUTS[id].scope === place).map((id) => <div key={id} className="flex min-h-6 items-center gap-3"><dt className="w-24 shrink-0"><Keys keys={keysOf(id)} /><span className="sr-only">{keysOf(id)}</span></dt><dd>{SHORTCUTS[id].title}</dd></div>)}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}

/** The first text field of an event that describes it. */
function summaryOf(event: Record<string, unknown>): string {
  const found = ["command", "path", "text", "prompt", "summary", "title", "tool"].map((name) => event[name]).find((each) => typeof each === "string" && each);
  return String(found ?? "").slice(0, 100);
}

/** Files whose name matches come before those whose directory does; of equal ones, short paths first. */
function byName(paths: string[], words: string): string[] {
  const nameOf = (path: string) => path.split("/").pop() ?? path;
  const best = (path: string) => Math.min(matchRank(nameOf(path), words), 0.5 + matchRank(path, words));
  return words ? ranked(paths, words, (path) => path).toSorted((a, b) => best(a) - best(b) || a.length - b.length || a.localeCompare(b)) : paths;
}

/** `typed` are the keys that were pressed before this was loaded; `before` had the focus. */
type FinderProps = { filesOnly: boolean; isCandidate: boolean; typed: Typed; showKeys: () => void; onClose: () => void };
export type Typed = { text: string; isPicked: boolean; before: Element | null };

export function Finder({ filesOnly, isCandidate, typed, showKeys, onClose }: FinderProps) {
  const [path, go] = useLocation();
  const [query, setQuery] = useState(typed.text);
  const mode = /^[>#:]/.exec(query)?.[0] ?? "";
  const words = query.slice(mode.length).trim(); // not deferred: Enter must never pick from an older list
  const searchText = useDeferredValue(words);
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const inAddress = new URLSearchParams(location.search);
  const room = path.startsWith("/i/") ? inAddress.get("ws") ?? "" : "";
  const session = room || (/^\/s\/(\w+)/.exec(path)?.[1] ?? "");
  const isWorkspace = room !== "" || path === `/s/${session}`; // its open file and panel stay
  const opened = (part: Record<string, string>) => `${isWorkspace ? path : `/s/${session}`}?${new URLSearchParams({ ...(isWorkspace ? Object.fromEntries(inAddress) : {}), ...part }).toString()}`;
  const sessions = useQuery({ queryKey: ["palette-sessions"], enabled: !filesOnly && !isCandidate, queryFn: async () => (await get<Schemas["SessionPage"]>("/sessions?interviews=false&limit=50")).items });
  const files = useQuery({
    queryKey: ["palette-files", session, searchText],
    enabled: session !== "" && mode === "" && (filesOnly || searchText.length > 1),
    queryFn: async () => (await get<Schemas["Paths"]>(`/sessions/${session}/glob?limit=${MAX_PATHS}&pattern=${encodeURIComponent(pathPattern(searchText))}`)).paths,
    placeholderData: (before) => before,
  });
  const events = useQuery({
    queryKey: ["palette-events", session, searchText],
    enabled: session !== "" && mode === "#" && searchText.length > 1,
    queryFn: async () => (await get<Schemas["EventSearchPage"]>(`/sessions/${session}/events/search?order=newest&limit=12&text=${encodeURIComponent(searchText)}`)).items,
    placeholderData: (before) => before,
  });
  const file = new URLSearchParams(location.search).get("file")?.replace(/:\d+$/, "") ?? "";
  const toPanel = (panel: string) => () => go(opened({ panel, view: "work" }));
  const { palette, panel, settings } = strings;
  const everywhere: Entry[] = [
    { group: palette.actions, label: `${settings.theme}: ${strings.theme.dark}`, detail: "", icon: "spark", run: () => setTheme("dark") },
    { group: palette.actions, label: `${settings.theme}: ${strings.theme.light}`, detail: "", icon: "spark", run: () => setTheme("light") },
    { group: palette.actions, label: strings.keys.title, detail: "", icon: "question", keys: keysOf("keys"), run: showKeys },
  ];
  const fixed: Entry[] = filesOnly ? [] : isCandidate ? [...pageCommands().map((each): Entry => ({ ...each, group: palette.actions, detail: each.detail ?? "" })), ...everywhere] : [
    ...pageCommands().map((each): Entry => ({ ...each, group: palette.actions, detail: each.detail ?? "" })),
    { group: palette.go, label: strings.nav.home, detail: "", icon: "home", keys: keysOf("goHome"), run: () => go("/") },
    { group: palette.go, label: strings.nav.tasks, detail: "", icon: "board", keys: keysOf("goTasks"), run: () => go("/tasks") },
    { group: palette.go, label: strings.changeList.all, detail: "", icon: "diff", keys: keysOf("goChanges"), run: () => go("/changes") },
    { group: palette.go, label: strings.nav.interviews, detail: "", icon: "interview", keys: keysOf("goInterviews"), run: () => go("/interviews") },
    { group: palette.go, label: strings.nav.analytics, detail: "", icon: "chart", keys: keysOf("goAnalytics"), run: () => go("/analytics") },
    { group: palette.go, label: strings.nav.budgets, detail: strings.nav.analytics, icon: "chart", run: () => go("/analytics?report=budgets") },
    { group: palette.go, label: strings.nav.activity, detail: "", icon: "log", keys: keysOf("goActivity"), run: () => go("/activity") },
    { group: palette.actions, label: strings.home.new, detail: "", icon: "plus", keys: keysOf("newSession"), run: () => go("/new") },
    { group: palette.actions, label: strings.home.guided, detail: palette.guidedDetail, icon: "play", run: () => go("/start") },
    ...(session ? ([["changes", panel.changes, "diff", "toChanges"], ["tests", panel.tests, "test", "toTests"], ["terminal", panel.terminal, "terminal", "toTerminal"], ["preview", panel.preview, "globe", "toPreview"], ["debugger", panel.debugger, "bug", "toDebugger"], ["log", panel.log, "log", "toLog"]] as [string, string, IconName, ShortcutId][]).map(([name, label, icon, id]) => ({ group: palette.go, label, detail: "", icon, keys: keysOf(id), run: toPanel(name) })) : []),
    ...(session ? [{ group: palette.go, label: palette.play, detail: "", icon: "play" as const, run: () => go(`/s/${session}/play`) }] : []),
    { group: palette.go, label: palette.record, detail: "", icon: "file", run: () => go("/record") },
    { group: palette.go, label: strings.nav.settings, detail: "", icon: "gear", keys: keysOf("goSettings"), run: () => go("/settings/you") },
    { group: palette.go, label: settings.approvals, detail: strings.nav.settings, icon: "gear", run: () => go("/settings/approvals") },
    ...(["personas", "secrets", "tokens"] as const).map((name) => ({ group: palette.go, label: settings[name], detail: strings.nav.settings, icon: "gear" as const, run: () => go(`/settings/${name}`) })),
    { group: palette.go, label: settings.models, detail: strings.nav.settings, icon: "key", run: () => go("/settings/models") },
    ...everywhere,
  ];
  const found: Entry[] = mode === "#"
    ? (events.data ?? []).map((each): Entry => ({ group: palette.events, label: `#${each.seq} ${each.event.type}`, detail: summaryOf(each.event as Record<string, unknown>), icon: "log", run: () => go(`/s/${session}/play?at=${each.seq}`) }))
    : mode === ":" && file && /^\d+$/.test(words)
      ? [{ group: palette.go, label: palette.line(Number(words)), detail: file, icon: "file", run: () => go(opened({ file: `${file}:${words}`, view: "work" })) }]
      : [];
  const entries: Entry[] = mode === "#" || mode === ":" ? found : mode === ">" ? ranked(fixed.filter((each) => each.group === palette.actions), words, (each) => each.label) : ranked([
    ...fixed,
    ...(filesOnly ? [] : ranked(sessions.data ?? [], words, titleOf)).slice(0, 12).map((each): Entry => ({ group: palette.sessions, label: titleOf(each), detail: strings.state[each.state], icon: "list", run: () => go(`/s/${each.id}`) })),
    ...byName(files.data ?? [], words).slice(0, filesOnly ? 50 : 12).map((each): Entry => ({ group: palette.files, label: each, detail: "", icon: "file", run: () => go(opened({ file: each, view: "work" })) })),
  ], filesOnly ? "" : words, (each) => each.label);
  const chosen = Math.min(at, entries.length - 1);
  const pick = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    entry.run();
  };
  const [isPicked] = useState(typed.isPicked);
  useEffect(() => {
    if (isPicked) pick(entries[0]);
  }, [isPicked]); // eslint-disable-line react-hooks/exhaustive-deps -- once, with what was typed before
  function onKey(event: KeyboardEvent) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const next = (chosen + (event.key === "ArrowDown" ? 1 : entries.length - 1)) % Math.max(1, entries.length);
      setAt(next);
      list.current?.children[next]?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && !event.nativeEvent.isComposing) {
      event.preventDefault();
      pick(entries[chosen]);
    }
  }
  return (
    <Dialog title={filesOnly ? palette.files : palette.title} onClose={onClose} returnTo={typed.before}>
      <input autoFocus role="combobox" aria-expanded="true" aria-controls="palette-list" {...(entries.length > 0 ? { "aria-activedescendant": `palette-${chosen}` } : {})} aria-label={filesOnly ? palette.fileHint : palette.hint} placeholder={filesOnly ? palette.fileHint : palette.hint} value={query} onChange={(event) => { setQuery(event.target.value); setAt(0); }} onKeyDown={onKey} className="h-8 w-full rounded-row border border-edge bg-panel px-2 text-14" />
      <ul ref={list} id="palette-list" role="listbox" aria-label={palette.title} className="mt-2 max-h-80 overflow-auto">
        {entries.map((entry, index) => (
          <li key={`${entry.group}:${entry.label}:${index}`} id={`palette-${index}`} role="option" aria-selected={index === chosen} onPointerMove={() => setAt(index)} onClick={() => pick(entry)} className={`flex h-7 items-center gap-2 rounded-row px-2 pointer-coarse:h-11 ${index === chosen ? "bg-selected" : ""}`}>
            <Icon name={entry.icon} size={14} className="text-t3" />
            <span className={`min-w-0 truncate ${mode === "#" ? "max-w-[60%] shrink-0" : ""}`}><SafeText text={entry.label} /></span>
            <span className="min-w-0 grow truncate text-12 text-t3"><SafeText text={entry.detail} /></span>
            {entry.keys && <Keys keys={entry.keys} />}
            {!filesOnly && <span className="text-11 text-t3">{entry.group}</span>}
          </li>
        ))}
      </ul>
      {entries.length === 0 && <p className="p-2 text-t2">{palette.none}</p>}
    </Dialog>
  );
}

// The rail at the left (at the bottom of a phone), and the page beside it.
import type { ReactNode } from "react";
import { Link, useLocation } from "wouter";
import type { Schemas } from "../api/http_client";
import { useSessionList } from "../api/session_list_stream";
import { strings } from "../strings";
import { Icon, type IconName } from "./icons";
import { useNeedsMe } from "./waiting_session_shortcut";
import { useNotifications } from "./notifications";
import { Palette, openPalette } from "./command_palette_keys";
import { useRegions } from "./region_focus";
import { ServerStrip } from "./server_status_strip";
import { keysOf } from "./shortcuts";

export function Frame({ user, children }: { user: Schemas["User"]; children: ReactNode }) {
  useRegions();
  useSessionList();
  useNotifications();
  const message = useNeedsMe();
  const [path] = useLocation();
  const hasRail = user.role !== "candidate" && !/^\/i\/[^/]+$/.test(path); // a candidate has one place: the room
  return (
    <div className="flex h-full max-sm:flex-col-reverse">
      <SkipLink />
      <Palette isCandidate={user.role === "candidate"} />
      <p role="status" className={message ? "appear fixed bottom-12 left-1/2 z-50 -translate-x-1/2 rounded-card border bg-raised px-3 py-1.5 shadow-menu" : "sr-only"}>{message}</p>
      {hasRail && <nav aria-label={strings.nav.label} className="flex w-12 shrink-0 flex-col items-center gap-1 border-r py-2 max-sm:h-11 max-sm:w-full max-sm:flex-row max-sm:justify-around max-sm:border-t max-sm:border-r-0 max-sm:py-0">
        <RailLink to="/" icon="home" label={strings.nav.home} />
        <RailLink to="/new" icon="plus" label={strings.home.new} />
        {user.role !== "assessor" && <RailLink to="/tasks" icon="board" label={strings.nav.tasks} />}
        <RailLink to="/changes" icon="diff" label={strings.nav.changes} />
        <RailLink to="/interviews" icon="interview" label={strings.nav.interviews} />
        <RailLink to="/analytics" icon="chart" label={strings.nav.analytics} />
        <RailLink to="/activity" icon="log" label={strings.nav.activity} isOnPhone={false} />
        <RailLink to="/record" icon="file" label={strings.palette.record} isOnPhone={false} />
        <button type="button" aria-label={strings.nav.palette} title={`${strings.nav.palette} (${keysOf("palette")})`} aria-keyshortcuts="Control+K" onClick={openPalette} className="fade grid size-9 place-items-center rounded-card text-t3 hover:bg-hover hover:text-t1"><Icon name="search" size={18} /></button>
        <span className="grow max-sm:hidden" />
        <RailLink to="/settings/you" icon="gear" label={`${strings.nav.settings} · ${user.name}`} />
      </nav>}
      <div className="flex min-h-0 min-w-0 grow flex-col">
        <ServerStrip />
        <div className="min-h-0 grow">{children}</div>
      </div>
    </div>
  );
}

/** The first thing that Tab reaches: past the rail. */
function SkipLink() {
  const [path] = useLocation();
  const isSession = /^\/s\/[^/]+$/.test(path);
  const skip = () => {
    const target = document.querySelector<HTMLElement>("[data-composer]") ?? document.querySelector<HTMLElement>("main");
    if (target?.matches("main")) target.tabIndex = -1;
    target?.focus();
  };
  return <button type="button" onClick={skip} className="sr-only focus:not-sr-only focus:absolute focus:top-1 focus:left-1 focus:z-50 focus:rounded-row focus:border focus:bg-raised focus:px-3 focus:py-1">{isSession ? strings.nav.skipToComposer : strings.nav.skip}</button>;
}

/** A phone has room for eight; the palette leads to the others. */
function RailLink({ to, icon, label, isOnPhone = true }: { to: string; icon: IconName; label: string; isOnPhone?: boolean }) {
  const [path] = useLocation();
  const isCurrent = path === to || (to === "/interviews" && path.startsWith("/i/")) || (to !== "/" && path.startsWith(to.split("/").slice(0, 2).join("/")));
  return (
    <Link href={to} aria-label={label} title={label} {...(isCurrent ? { "aria-current": "page" as const } : {})} className={`fade grid size-9 place-items-center rounded-card hover:bg-hover hover:text-t1 ${isCurrent ? "bg-selected text-t1" : "text-t3"} ${isOnPhone ? "" : "max-sm:hidden"}`}>
      <Icon name={icon} size={18} />
    </Link>
  );
}

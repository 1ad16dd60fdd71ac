// Settings: the user's own, and for owners those of the installation. Every value is shown with its origin.
import { setPageTitle } from "../../shared/page_title";
import { useEffect, useRef } from "react";
import { Link } from "wouter";
import type { Schemas } from "../../api/http_client";
import { strings } from "../../strings";
import { Approvals, Models, You } from "./account_approvals_and_model_keys";
import { UserList } from "./users_and_invites";
import { PersonaList, Rules } from "./personas_and_policies";
import { Secrets } from "./secrets";
import { AuditLog, Environments, Health, ServerSettings } from "./server_settings_audit_health";
import { Tokens } from "./tokens";

type User = Schemas["User"];
const text = strings.settings;
const SECTIONS: [string, string, boolean][] = [["you", text.you, false], ["approvals", text.approvals, false], ["models", text.models, false], ["personas", text.personas, false], ["environments", text.environments, false], ["rules", text.rules, true], ["tokens", text.tokens, false], ["secrets", text.secrets, false], ["users", text.users, true], ["server", text.server, true], ["audit", text.audit, true], ["health", text.health, true]];

export function SettingsPage({ section, user }: { section: string; user: User }) {
  const isOwner = user.role === "owner";
  const shown = SECTIONS.filter(([, , forOwners]) => isOwner || !forOwners);
  const title = shown.find(([name]) => name === section)?.[1] ?? text.you;
  useEffect(() => {
    setPageTitle(title);
  }, [title]);
  const nav = useRef<HTMLElement>(null);
  useEffect(() => { // on a phone the sections are one line
    nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [section]);
  return (
    <main className="flex h-full max-sm:flex-col">
      <nav ref={nav} aria-label={strings.nav.settings} className="no-scrollbar w-48 shrink-0 overflow-auto border-r bg-panel p-2 max-sm:flex max-sm:w-full max-sm:border-b max-sm:border-r-0">
        {shown.map(([name, label]) => (
          <Link key={name} href={`/settings/${name}`} {...(name === section ? { "aria-current": "page" as const } : {})} className={`fade flex h-7 items-center rounded-row px-2 whitespace-nowrap pointer-coarse:h-11 ${name === section ? "bg-selected text-t1" : "text-t2 hover:bg-hover"}`}>{label}</Link>
        ))}
      </nav>
      <div className="min-h-0 min-w-0 grow overflow-auto p-6 max-sm:p-3">
        <h1 className="text-20 font-semibold">{title}</h1>
        <div className="mt-4 max-w-3xl space-y-6">
          {section === "approvals" ? <Approvals /> : section === "models" ? <Models /> : section === "personas" ? <PersonaList user={user} /> : section === "tokens" ? <Tokens user={user} /> : section === "secrets" ? <Secrets user={user} /> : section === "users" ? <UserList me={user} /> : section === "rules" ? <Rules /> : section === "environments" ? <Environments /> : section === "server" ? <ServerSettings /> : section === "audit" ? <AuditLog /> : section === "health" ? <Health /> : <You user={user} />}
        </div>
      </div>
    </main>
  );
}

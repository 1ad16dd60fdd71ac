// A session: the conversation at the left, the work beside it. Below 1024 px the work is a tab.
import { useEffect, useMemo, useState } from "react";
import { useSearchParams } from "wouter";
import { Problem, type Schemas, asProblem } from "../../api/http_client";
import { Boundary } from "../../shared/error_boundary";
import { ProblemLine } from "../../shared/error_message";
import { Splitter, useSize } from "../../shared/panel_splitter";
import { setPageTitle } from "../../shared/page_title";
import { strings } from "../../strings";
import { titleOf } from "../home";
import { NotFound } from "../not_found";
import { Announcer } from "./screen_reader_announcer";
import { Composer, type SessionCommand } from "./composer";
import { ConnectionStrip } from "./connection_strip";
import { DependencyStrip } from "./dependency_install_consent";
import { Docks } from "./approval_and_question_dock";
import { Context, type Panel, useView } from "./session_context";
import { Header } from "./session_header";
import { useSessionParts } from "./session_streams_and_context";
import { Conversation } from "./conversation";
import { UndoDialog } from "./undo_dialog";
import { WorkArea } from "./work_area";
import { useIsWide } from "./window_width_classes";

const MIN_CONVERSATION_PX = 360;

export function SessionPage({ id, user }: { id: string; user: Schemas["User"] }) {
  const { context, session } = useSessionParts(id, user);
  const [params, setParams] = useSearchParams();
  if (session.isError && session.error instanceof Problem && session.error.status === 404) return <NotFound />;
  const isInStrip = session.data !== undefined && session.isError && asProblem(session.error).status === 0; // the strip says it
  return (
    <Context value={context}>
      <div className="flex h-full flex-col">
        <ConnectionStrip />
        {session.isError && !isInStrip && <div className="p-2"><ProblemLine error={session.error} retry={() => void session.refetch()} /></div>}
        <Layout title={session.data ? titleOf(session.data) : ""} view={params.get("view") ?? "talk"} setView={(view) => setParams((before) => { const after = new URLSearchParams(before); after.set("view", view); return after; }, { replace: true })} />
        <Announcer />
      </div>
    </Context>
  );
}

function Layout({ title, view, setView }: { title: string; view: string; setView: (view: string) => void }) {
  const [conversationWidth, setConversationWidth] = useSize("talk", 440);
  const [undoing, setUndoing] = useState(false);
  const wide = useIsWide();
  const folded = useView();
  useEffect(() => {
    const needs = folded.pending.length;
    setPageTitle(`${needs ? `(${needs}) ` : ""}${strings.state[folded.state]} · ${title || strings.session.title}`);
  }, [title, folded.state, folded.pending.length]);
  const commands = useCommands(() => setUndoing(true));
  const conversation = (
    <section aria-label={strings.session.talk} className="flex h-full min-h-0 flex-col bg-panel">
      <Header title={title} onUndo={() => setUndoing(true)} />
      <div className="min-h-0 grow"><Boundary what={strings.session.talk}><Conversation /></Boundary></div>
      <DependencyStrip />
      <Docks />
      <Composer commands={commands} />
    </section>
  );
  return (
    <main className="flex min-h-0 grow max-[1023px]:flex-col">
      {undoing && <UndoDialog onClose={() => setUndoing(false)} />}
      {wide ? (
        <>
          <div className="h-full shrink-0" style={{ width: conversationWidth }}>{conversation}</div>
          <Splitter label={strings.panel.resizeTalk} size={conversationWidth} min={MIN_CONVERSATION_PX} max={Math.max(MIN_CONVERSATION_PX, window.innerWidth - 560)} onSize={setConversationWidth} />
          <div className="h-full min-w-0 grow"><WorkArea /></div>
        </>
      ) : (
        <>
          <div role="tablist" aria-label={strings.session.work} className="flex h-8 shrink-0 border-b bg-frame pointer-coarse:h-11">
            {["talk", "work"].map((name) => (
              <button key={name} type="button" role="tab" aria-selected={view === name} onClick={() => setView(name)} className={`inset-focus grow border-b-2 text-13 ${view === name ? "border-accent text-t1" : "border-transparent text-t2"}`}>{name === "talk" ? strings.session.talk : strings.session.work}</button>
            ))}
          </div>
          <div className="min-h-0 grow">{view === "work" ? <WorkArea /> : conversation}</div>
        </>
      )}
    </main>
  );
}

function useCommands(undo: () => void): SessionCommand[] {
  const [, setParams] = useSearchParams();
  return useMemo(() => {
    const panel = (name: Panel) => () => setParams((before) => { const after = new URLSearchParams(before); after.set("panel", name); after.set("view", "work"); return after; });
    return [
      { name: "undo", title: strings.session.undo, run: undo },
      { name: "tests", title: strings.panel.tests, run: panel("tests") },
      { name: "changes", title: strings.panel.changes, run: panel("changes") },
      { name: "terminal", title: strings.panel.terminal, run: panel("terminal") },
      { name: "log", title: strings.panel.log, run: panel("log") },
      { name: "preview", title: strings.panel.preview, run: panel("preview") },
    ];
  }, [setParams, undo]);
}

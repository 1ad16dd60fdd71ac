// Playback of a session, live or ended: editor, terminal, tests and conversation move together on one timeline.
import { useEffect, useState, useSyncExternalStore } from "react";
import { Problem, type Schemas } from "../../api/http_client";
import { useSession, useUsers } from "../../api/queries";
import { titleOf } from "../../number_and_time_format";
import { ProblemLine } from "../../shared/error_message";
import { showHidden } from "../../shared/safe_text";
import { strings } from "../../strings";
import { text } from "../../strings/playback";
import { NotFound } from "../not_found";
import { makeNameOf } from "../session/session_context";
import { Playback } from "./playback_panes";
import { Player } from "./player";
import { Recording } from "./event_source";

export function PlaybackPage({ id, user }: { id: string; user: Schemas["User"] }) {
  const session = useSession(id);
  const users = useUsers(user.role === "owner");
  const [recording] = useState(() => new Recording());
  const [player] = useState(() => new Player(recording, Number(new URLSearchParams(location.search).get("speed")) || 1));
  const head = session.data?.head?.seq;
  const known = head !== undefined;
  useEffect(() => (known ? recording.follow(id, Math.max(head, Number(new URLSearchParams(location.search).get("at")))) : undefined), [recording, id, known]); // eslint-disable-line react-hooks/exhaustive-deps -- the head counts at the start only
  useSyncExternalStore(recording.subscribe, () => recording.version);
  const title = session.data ? titleOf(session.data) : "";
  useEffect(() => {
    document.title = `${showHidden(text.title(title))} · ${strings.hutch}`;
  }, [title]);
  if (session.error instanceof Problem && session.error.status === 404) return <NotFound />;
  if (session.isError) return <div className="p-4"><ProblemLine error={session.error} retry={() => void session.refetch()} /></div>;
  if (!recording.isLoaded) return <main className="grid h-full place-items-center"><p role="status" className="text-t2">{text.loading(recording.entries.length, head ?? 0)}</p></main>;
  return <Playback player={player} session={id} title={title} nameOf={makeNameOf(user, users.data, session.data)} />;
}

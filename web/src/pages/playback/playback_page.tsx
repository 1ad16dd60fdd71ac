// Playback of a session, live or ended: editor, terminal, tests and conversation move together on one timeline.
import { useEffect, useState, useSyncExternalStore } from "react";
import { Problem, type Schemas } from "../../api/http_client";
import { useSession, useUsers } from "../../api/queries";
import { titleOf } from "../../display_format";
import { ProblemLine } from "../../shared/error_message";
import { setPageTitle } from "../../shared/page_title";
import { text } from "../../strings/playback";
import { NotFound } from "../not_found";
import { makeNameOf } from "../session/session_context";
import { Playback } from "./playback_panes";
import { Player } from "./playback_position";
import { Recording } from "./playback_events";

const [MIN_SPEED, MAX_SPEED] = [0.5, 16];
/** A number of the address; 0 if it is none. */
const inQuery = (name: string) => Number(new URLSearchParams(location.search).get(name)) || 0;

export function PlaybackPage({ id, user }: { id: string; user: Schemas["User"] }) {
  const session = useSession(id);
  const users = useUsers(user.role === "owner");
  const [recording] = useState(() => new Recording());
  const [player] = useState(() => new Player(recording, Math.min(MAX_SPEED, Math.max(MIN_SPEED, inQuery("speed") || 1))));
  const head = session.data?.head?.seq;
  const known = head !== undefined;
  useEffect(() => (known ? recording.follow(id, head, inQuery("at")) : undefined), [recording, id, known]); // eslint-disable-line react-hooks/exhaustive-deps -- the head counts at the start only
  useSyncExternalStore(recording.subscribe, () => recording.version);
  const title = session.data ? titleOf(session.data) : "";
  useEffect(() => {
    setPageTitle(text.title(title));
  }, [title]);
  if (session.error instanceof Problem && session.error.status === 404) return <NotFound />;
  if (session.isError) return <div className="p-4"><ProblemLine error={session.error} retry={() => void session.refetch()} /></div>;
  if (!recording.isLoaded) return <main className="grid h-full place-items-center"><p role="status" className="text-t2">{text.loading(recording.entries.length, head ?? 0)}</p></main>;
  return <Playback player={player} session={id} title={title} nameOf={makeNameOf(user, users.data, session.data)} />;
}

// The streams and the context that all parts of a session need, on its own page and in the rooms of interviews.
import { useEffect, useMemo, useState } from "react";
import { useSearchParams } from "wouter";
import type { Schemas, Session } from "../../api/http_client";
import { DocumentChannel } from "../../api/document_socket";
import { useAccess, useSession, useUsers } from "../../api/queries";
import { SessionStream, type Start } from "../../api/session_stream";
import { type Panel, type SessionContext, makeNameOf } from "./session_context";

/** `canWrite` only takes away: what the server allows is the limit. `panels` are those of the work area, if not all. */
type Options = { canWrite?: boolean; panels?: readonly Panel[]; nameOf?: (by: string) => string };

export function useSessionParts(id: string, user: Schemas["User"], { canWrite = true, panels, nameOf }: Options = {}) {
  const session = useSession(id);
  const users = useUsers(user.role === "owner");
  const access = useAccess(id);
  const [stream] = useState(() => new SessionStream(id));
  const [documents] = useState(() => new DocumentChannel(id));
  useEffect(() => documents.watch(), [documents]);
  const [, setParams] = useSearchParams();
  const start = startOf(session.data, user);
  const isKnown = start !== null;
  useEffect(() => (start ? stream.open(start) : undefined), [stream, isKnown]); // eslint-disable-line react-hooks/exhaustive-deps -- the stream knows later states itself

  const context = useMemo((): SessionContext => ({
    id,
    stream,
    documents,
    session: session.data,
    me: user,
    canWrite: canWrite && (access.data?.actions.includes("input") ?? (user.role !== "observer" && user.role !== "assessor")),
    canManage: access.data?.actions.includes("manage") ?? false,
    ...(panels ? { panels } : {}),
    isReadOnly: !canWrite,
    nameOf: nameOf ?? makeNameOf(user, users.data, session.data),
    openFile: (path, line) => setParams((before) => { const after = new URLSearchParams(before); after.set("file", line ? `${path}:${line}` : path); after.set("view", "work"); return after; }),
    showPanel: (panel: Panel) => setParams((before) => { const after = new URLSearchParams(before); after.set("panel", panel); after.set("view", "work"); return after; }),
  }), [id, stream, documents, session.data, access.data, user, users.data, setParams, canWrite, panels, nameOf]);
  return { context, session, access };
}

function startOf(session: Session | undefined, user: Schemas["User"]): Start | null {
  if (!session) return null;
  return { user: user.id, head: session.head?.seq ?? 0, erased: session.erased_events ?? 0, state: session.state, purpose: session.purpose, owner: session.owner, persona: session.persona, model: session.model };
}

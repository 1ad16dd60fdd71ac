// The streams and the context that all parts of a session need, on its own page and in the rooms of interviews.
import { useEffect, useMemo, useState } from "react";
import { useSearchParams } from "wouter";
import type { Schemas, Session } from "../../api/http_client";
import { DocumentChannel } from "../../api/document_socket";
import { useAccess, useSession, useUsers } from "../../api/queries";
import { SessionStream, type Start } from "../../api/session_stream";
import { onReturn } from "../../api/socket_watch";
import { type Panel, type SessionContext, makeNameOf } from "./session_context";

/** `canWrite` can only restrict the rights that the server gives. `panels` are those of the work area, if not all. */
type Options = { canWrite?: boolean; panels?: readonly Panel[]; nameOf?: (by: string) => string; readOnlyReason?: string };

export function useSessionParts(id: string, user: Schemas["User"], { canWrite = true, panels, nameOf, readOnlyReason }: Options = {}) {
  const session = useSession(id);
  const users = useUsers(user.role === "owner");
  const access = useAccess(id);
  const [stream] = useState(() => new SessionStream(id));
  const [documents] = useState(() => new DocumentChannel(id));
  useEffect(() => documents.watch(), [documents]);
  useEffect(() => onReturn(stream, () => { if (documents.status === "down") documents.retryNow(); }), [stream, documents]);
  const [, setParams] = useSearchParams();
  const start = startOf(session.data, user);
  const isKnown = start !== null;
  useEffect(() => (start ? stream.open(start) : undefined), [stream, isKnown]); // eslint-disable-line react-hooks/exhaustive-deps -- the stream knows later states itself

  const mayWrite = canWrite && (access.data?.actions.includes("input") ?? (user.role !== "observer" && user.role !== "assessor"));
  const mayEdit = canWrite && (access.data?.actions.includes("edit") ?? mayWrite);
  const context = useMemo((): SessionContext => ({
    id,
    stream,
    documents,
    session: session.data,
    me: user,
    canWrite: mayWrite,
    canEdit: mayEdit,
    canChange: mayWrite && session.data?.state !== "ended",
    canManage: access.data?.actions.includes("manage") ?? false,
    ...(panels ? { panels } : {}),
    isReadOnly: !canWrite,
    ...(readOnlyReason && !canWrite ? { readOnlyReason } : {}),
    nameOf: nameOf ?? makeNameOf(user, users.data, session.data),
    openFile: (path, line) => setParams((before) => { const after = new URLSearchParams(before); after.set("file", line ? `${path}:${line}` : path); after.set("view", "work"); return after; }),
    showPanel: (panel: Panel) => setParams((before) => { const after = new URLSearchParams(before); after.set("panel", panel); after.set("view", "work"); return after; }),
  }), [id, stream, documents, session.data, access.data, user, users.data, setParams, canWrite, mayWrite, mayEdit, panels, nameOf, readOnlyReason]);
  return { context, session, access };
}

function startOf(session: Session | undefined, user: Schemas["User"]): Start | null {
  if (!session) return null;
  return { user: user.id, head: session.head?.seq ?? 0, erased: session.erased_events ?? 0, state: session.state, purpose: session.purpose, owner: session.owner, persona: session.persona, model: session.model };
}

// Data and actions that every part of a session page needs.
import { createContext, useContext, useSyncExternalStore } from "react";
import type { Schemas, Session } from "../../api/http_client";
import type { DocumentChannel } from "../../api/document_socket";
import type { SessionStream } from "../../api/session_stream";
import type { View } from "../../fold/view_types";
import { strings } from "../../strings";

export type Panel = "terminal" | "tests" | "changes" | "debugger" | "log" | "preview";
export type SessionContext = {
  id: string;
  stream: SessionStream;
  documents: DocumentChannel;
  session: Session | undefined;
  me: Schemas["User"];
  canWrite: boolean;
  canEdit: boolean; // the text of documents; assessors of an interview may do this and nothing else
  canChange: boolean; // canWrite, and the session has not ended
  canManage: boolean;
  panels?: readonly Panel[]; // of the work area, if not all
  isReadOnly?: boolean; // by choice of the page, which tells why
  readOnlyReason?: string; // in place of the message field, if that is why
  nameOf: (by: string) => string;
  openFile: (path: string, line?: number) => void;
  showPanel: (panel: Panel) => void;
};

export const Context = createContext<SessionContext | null>(null);

export function useSessionContext(): SessionContext {
  const found = useContext(Context);
  if (!found) throw new Error("There is no session around this part.");
  return found;
}

/** The view, renewed once per frame. Rows keep their identity while they do not change. */
export function useView(): View {
  const { stream } = useSessionContext();
  useSyncExternalStore(stream.subscribe, () => stream.version);
  return stream.view;
}

export function makeNameOf(me: Schemas["User"], users: Schemas["User"][] | undefined, session: Session | undefined) {
  const names = new Map(users?.map((each) => [each.id, each.name]));
  if (session) names.set(session.owner, session.owner_name);
  names.set(me.id, me.name);
  return (by: string) => (by === "agent" ? strings.session.agent : by === "hutch" ? strings.session.hutch : names.get(by) ?? (by ? strings.session.somebody : strings.session.hutch));
}

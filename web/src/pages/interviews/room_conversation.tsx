// The conversation with the assistant: streamed replies, tool calls, usage, and the message field.
import { useMemo } from "react";
import { useSearchParams } from "wouter";
import { Button } from "../../shared/form_controls";
import { strings } from "../../strings";
import { text } from "../../strings/interviews";
import { Composer, type SessionCommand } from "../session/composer";
import { Conversation } from "../session/conversation";
import { Docks } from "../session/approval_and_question_dock";
import { type Panel, useSessionContext, useView } from "../session/session_context";
import { Meter } from "../session/session_header";

export function RoomConversation() {
  const { stream, canWrite } = useSessionContext();
  const view = useView();
  const [, setParams] = useSearchParams();
  const commands = useMemo((): SessionCommand[] => {
    const panel = (name: Panel) => () => setParams((before) => { const after = new URLSearchParams(before); after.set("panel", name); return after; });
    return [{ name: "tests", title: strings.panel.tests, run: panel("tests") }, { name: "terminal", title: strings.panel.terminal, run: panel("terminal") }, { name: "changes", title: strings.panel.changes, run: panel("changes") }];
  }, [setParams]);
  const isWorking = view.run !== "" || view.state === "queued";
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex min-h-8 shrink-0 items-center gap-2 border-b px-3">
        <div className="min-w-0 grow"><Meter /></div>
        {canWrite && isWorking && <Button icon="stop" small onClick={() => stream.request({ type: "cancel" })}>{text.room.stop}</Button>}
      </div>
      <div className="min-h-0 grow"><Conversation /></div>
      <Docks />
      <Composer commands={commands} />
    </div>
  );
}

// Messages between the candidate and the assessors: all of them, and a strip for one that was not read yet.
import { type SubmitEvent, useState, useSyncExternalStore } from "react";
import { ProblemLine } from "../../shared/error_message";
import { Button, Field } from "../../shared/form_controls";
import { clock } from "../../display_format";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/interviews";
import { type Interview, nameIn, useStep } from "./interview_api";
import type { RoomLog, RoomMessage } from "./room_log";

type Me = { id: string; name: string };
type Props = { interview: Interview; room: RoomLog; me: Me };

export function RoomMessages({ interview, room, me }: Props) {
  const isCandidate = interview.role === "candidate";
  const step = useStep(interview.id);
  const nameOf = nameIn(interview, me, text.assessor.unknownAssessor);
  const [typed, setTyped] = useState("");
  const [isPrivate, setPrivate] = useState(false);
  const canSend = interview.role !== "observer" && interview.phase !== "closed";
  const hint = isPrivate ? text.assessor.privateHint : text.assessor.messageHint;
  async function submit(event: SubmitEvent) {
    event.preventDefault();
    const message = typed.trim();
    if (message && (await step.take("messages", { text: message, private: isPrivate }))) setTyped("");
  }
  const { messages } = room.view;
  return (
    <div className="flex h-full min-h-0 flex-col">
      <ol aria-label={text.room.messages} className="min-h-0 grow space-y-2 overflow-auto p-3">
        {messages.length === 0 && <li className="text-t2">{isCandidate ? text.room.noMessages : text.assessor.noMessages}</li>}
        {messages.map((each) => <Message key={each.seq} message={each} name={nameOf(each.by)} isMine={each.by === me.id} />)}
      </ol>
      {canSend && (
        <form onSubmit={(event) => void submit(event)} className="shrink-0 border-t p-2">
          {step.error !== null && <div className="mb-2"><ProblemLine error={step.error} /></div>}
          <div className="flex gap-2">
            <Field value={typed} onChange={(event) => setTyped(event.target.value)} aria-label={isCandidate ? text.room.messageLabel : hint} placeholder={isCandidate ? text.room.messageHint : hint} maxLength={20_000} className="grow" />
            <Button type="submit" icon="send" disabled={!typed.trim() || step.busy !== ""}>{text.send}</Button>
          </div>
          {!isCandidate && <label className="mt-1 flex items-center gap-1.5 text-12 text-t2"><input type="checkbox" checked={isPrivate} onChange={(event) => setPrivate(event.target.checked)} className="accent-accent" />{text.assessor.privately}</label>}
        </form>
      )}
    </div>
  );
}

function Message({ message, name, isMine }: { message: RoomMessage; name: string; isMine: boolean }) {
  return (
    <li className={`max-w-[90%] rounded-card border px-2 py-1 ${isMine ? "ml-auto bg-selected" : "bg-panel"}`}>
      <p className="text-12 text-t2"><SafeText text={name} /> · {clock(message.atMs)}{message.isPrivate && ` · ${text.assessor.private}`}</p>
      <p className="break-words whitespace-pre-wrap"><SafeText text={message.text} /></p>
    </li>
  );
}

const storedRead = (id: string) => Number(localStorage.getItem(`hutch.read.${id}`) ?? 0);
const readers = new Set<() => void>();
const onRead = (listener: () => void) => {
  readers.add(listener);
  return () => readers.delete(listener);
};

/** The number of unread messages of others, and a function that marks all as read. */
export function useUnread(interview: Interview, room: RoomLog, me: Me) {
  const readSeq = useSyncExternalStore(onRead, () => storedRead(interview.id));
  const unread = room.view.messages.filter((each) => each.by !== me.id && each.seq > readSeq);
  const read = () => {
    const seq = room.view.messages.at(-1)?.seq ?? 0;
    localStorage.setItem(`hutch.read.${interview.id}`, String(seq));
    for (const each of readers) each();
  };
  return { unread, read };
}

export function MessageStrip({ interview, room, me, reply }: Props & { reply?: () => void }) {
  const { unread, read } = useUnread(interview, room, me);
  const newest = unread.at(-1);
  const name = nameIn(interview, me, text.assessor.unknownAssessor);
  return (
    <div role="status" className="shrink-0">
      {newest && (
        <div className="flex min-h-8 items-center gap-3 border-b bg-info-tint px-3 py-1 text-info">
          <span className="min-w-0 break-words"><span className="font-semibold"><SafeText text={text.room.message(name(newest.by))} />:</span> <SafeText text={newest.text} /></span>
          <span className="grow" />
          {reply && <Button small onClick={() => { read(); reply(); }}>{text.room.reply}</Button>}
          <Button small kind="quiet" onClick={read}>{text.close}</Button>
        </div>
      )}
    </div>
  );
}

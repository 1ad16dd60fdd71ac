// The rows of the conversation besides tool calls: prompts, messages, replies and notes.
import { DropdownMenu } from "radix-ui";
import { type ReactNode, useState } from "react";
import { Link, useLocation } from "wouter";
import { type Session, post } from "../../api/http_client";
import { useChangesOf } from "../../api/queries";
import { copyText } from "../../clipboard";
import type { Message, Note, Prompt, Reply, Row, UserCommand, UserTests } from "../../fold/view_types";
import { clock, commandEnd, dollars, repositoryName, seconds, tokens } from "../../display_format";
import { Badge, Button, IconButton } from "../../shared/form_controls";
import { Icon, type IconName } from "../../shared/icons";
import { Markdown } from "../../shared/markdown";
import { ModelSettingsLink, needsModelKey } from "../../shared/error_message";
import { SafeText, showHidden } from "../../shared/safe_text";
import { strings } from "../../strings";
import { notes as helperNotes } from "../../strings/helper_agents_and_tries";
import { ChangeState } from "../proposed_change_row";
import { useSessionContext, useView } from "./session_context";
import { useOpen } from "./expanded_rows";
import { CommandOutput, TestsDetail, ToolRow, testsSummary } from "./tool_row";
import { UndoDialog, runsToUndo } from "./undo_dialog";

const MAX_TEXT_CHARS = 2000;
const MAX_TEXT_LINES = 20;
const MAX_NOTE_CHARS = 160;

export function RowView({ row }: { row: Row }) {
  const shown = one(row);
  return row.undone ? <div className="opacity-60" data-undone>{shown}</div> : shown;
}

function one(row: Row): ReactNode {
  switch (row.kind) {
    case "prompt": return <PromptRow row={row} />;
    case "message": return <MessageRow row={row} />;
    case "reply": return <ReplyRow row={row} />;
    case "tool": return <ToolRow row={row} />;
    case "note": return <NoteRow row={row} />;
    case "command": return <UserCommandRow row={row} />;
    case "tests": return <UserTestsRow row={row} />;
  }
}

/** A script is a file; its path says nothing to a reader. */
export const modelName = (name: string) => (name.startsWith("scripted:") ? repositoryName(name).replace(/\.\w+$/, "") : name.replace(/^[\w-]+:/, ""));

const TONES: Record<string, "ok" | "bad" | "warn" | "info" | "none"> = { done: "ok", tests_failing: "bad", failed: "bad", limit_reached: "warn", cancelled: "warn", waiting: "warn", running: "info", queued: "none" };

function PromptRow({ row }: { row: Prompt }) {
  const { nameOf } = useSessionContext();
  const view = useView();
  const isAsking = row.runId === view.run && view.pending.length > 0;
  const state = row.outcome || (isAsking ? "waiting" : row.state);
  return (
    <article aria-label={row.text.slice(0, 80)} className="border-t bg-code px-3 pt-2 pb-3 first:border-t-0">
      <header className="flex items-center gap-2 text-12 text-t3">
        <span className="font-semibold text-t1"><SafeText text={nameOf(row.by)} /></span>
        <time>{clock(row.atMs)}</time>
        {row.persona && <span className="min-w-0 truncate">{row.persona} · {modelName(row.model)}</span>}
        <span className="grow" />
        {row.state === "ended" && (
          <span className="whitespace-nowrap max-[1100px]:hidden">{strings.session.turns(row.turns)}{row.costUsd !== null && row.costUsd > 0 ? ` · ${dollars(row.costUsd)}` : ""} · {seconds(row.durationS)}</span>
        )}
        <Badge tone={TONES[state] ?? "none"}>{row.undone ? strings.session.undone : strings.session.outcome[state] ?? state}</Badge>
        <PromptMenu row={row} />
      </header>
      <LongText id={row.id} text={row.text} />
      {row.reason && row.outcome !== "done" && <p className="mt-1 text-bad"><SafeText text={row.reason} /> {needsModelKey(row.reason) && <ModelSettingsLink />}</p>}
      <RunAgain row={row} />
    </article>
  );
}

/** Below the newest run, if it failed. */
function RunAgain({ row }: { row: Prompt }) {
  const { stream, canChange } = useSessionContext();
  const view = useView();
  if (row.outcome !== "failed" || row.undone || !canChange || view.rows.findLast((each) => each.kind === "prompt") !== row) return null;
  return <Button small icon="retry" className="mt-2" onClick={() => stream.request({ type: "prompt", text: row.text })}>{strings.session.retry}</Button>;
}

/** `detail` says why an entry is disabled. */
export function MenuItem({ icon, children, onSelect, disabled = false, detail = "" }: { icon: IconName; children: ReactNode; onSelect: () => void; disabled?: boolean; detail?: string }) {
  return (
    <DropdownMenu.Item onSelect={onSelect} disabled={disabled} className="flex min-h-7 items-center gap-2 rounded-row px-2 text-13 outline-none select-none data-[disabled]:text-t3 data-[highlighted]:bg-hover pointer-coarse:min-h-11">
      <Icon name={icon} size={14} className="text-t3" />
      {detail ? <span className="max-w-64 py-1">{children}<span className="meta block">{detail}</span></span> : children}
    </DropdownMenu.Item>
  );
}

export function Menu({ label, icon = "more", children }: { label: string; icon?: IconName; children: ReactNode }) {
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger asChild><IconButton icon={icon} label={label} /></DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content align="end" sideOffset={2} className="appear z-50 min-w-44 rounded-card border bg-raised p-1 shadow-menu">{children}</DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

function PromptMenu({ row }: { row: Prompt }) {
  const { id, stream, me, canWrite, canChange } = useSessionContext();
  const view = useView();
  const canFork = canWrite && me.role !== "candidate";
  const [, go] = useLocation();
  const [undoing, setUndoing] = useState(false);
  const after = view.snapshots.findLast((each) => each.seq <= (view.rows.findLast((other) => other.runId === row.runId)?.seq ?? 0));
  const isBeforeUndoable = !row.undone && row.state === "ended" && runsToUndo(view, row.runId).length > 1;
  return (
    <>
      <Menu label={strings.session.more}>
        <MenuItem icon="copy" onSelect={() => void copyText(row.text)}>{strings.session.copy}</MenuItem>
        {canChange && <MenuItem icon="retry" onSelect={() => stream.request({ type: "prompt", text: row.text })}>{strings.session.retry}</MenuItem>}
        {canFork && (
          <MenuItem icon="fork" onSelect={() => void post<Session>(`/sessions/${id}/fork`, { conversation: true, ...(after ? { snapshot: after.number } : {}) }).then((made) => go(`/s/${made.id}`), (error: unknown) => stream.report(error))}>{strings.session.fork}</MenuItem>
        )}
        {canChange && view.undoable === row.runId && !row.undone && <MenuItem icon="undo" onSelect={() => setUndoing(true)}>{strings.session.undo}</MenuItem>}
        {canChange && isBeforeUndoable && <MenuItem icon="undo" onSelect={() => setUndoing(true)}>{strings.session.undoToHere}</MenuItem>}
        {canChange && row.undone && view.redoable && <MenuItem icon="redo" onSelect={() => stream.request({ type: "redo" })}>{strings.session.redo}</MenuItem>}
      </Menu>
      {undoing && <UndoDialog to={row.runId} onClose={() => setUndoing(false)} />}
    </>
  );
}

function MessageRow({ row }: { row: Message }) {
  const { nameOf } = useSessionContext();
  if (row.author === "hutch") return <HutchMessageRow row={row} />;
  return (
    <article className="px-3 py-2">
      <header className="flex gap-2 text-12 text-t3"><span className="font-semibold text-t1"><SafeText text={nameOf(row.by || (row.author === "user" ? "" : row.author))} /></span><time>{clock(row.atMs)}</time></header>
      <LongText id={row.id} text={row.text} />
    </article>
  );
}

/** A message of Hutch to the agent, such as the results of tests that have a row of their own: one line that opens. */
function HutchMessageRow({ row }: { row: Message }) {
  const [open, toggle] = useOpen(row.id, false);
  return (
    <div className="px-3">
      <button type="button" aria-expanded={open} onClick={toggle} className="row-h inset-focus flex w-full items-center gap-2 rounded-row text-left text-12 text-t3 hover:bg-hover">
        <Icon name="chevron" size={14} className={open ? "rotate-90" : ""} />
        <span className="min-w-0 grow truncate"><SafeText text={strings.session.toldAgent(row.text.split("\n")[0] ?? "")} /></span>
      </button>
      {open && <pre tabIndex={0} className="mb-2 ml-6 max-h-80 overflow-auto rounded-row border bg-code px-2 py-1 text-12 leading-5 whitespace-pre-wrap [overflow-wrap:anywhere]"><SafeText text={row.text} /></pre>}
    </div>
  );
}

/** A text that a person has sent. Pasted pages are folded. */
function LongText({ id, text }: { id: string; text: string }) {
  const [open, toggle] = useOpen(`${id}:text`, false);
  const lines = text.split("\n");
  const isLong = text.length > MAX_TEXT_CHARS || lines.length > MAX_TEXT_LINES;
  return (
    <>
      <div className="mt-1 max-w-[72ch] text-14 break-words whitespace-pre-wrap"><SafeText text={isLong && !open ? lines.slice(0, MAX_TEXT_LINES).join("\n").slice(0, MAX_TEXT_CHARS) : text} /></div>
      {isLong && <Button kind="quiet" small className="-ml-2" aria-expanded={open} onClick={toggle}>{open ? strings.session.less : `${strings.session.all} · ${strings.session.lines(lines.length)}`}</Button>}
    </>
  );
}

function ReplyRow({ row }: { row: Reply }) {
  const [open, toggle] = useOpen(`${row.id}:thinking`, false);
  const isThinking = row.streaming && row.thinking && !row.text;
  return (
    <div className="px-3 py-2">
      {row.thinking && (
        <div className={row.text ? "mb-1" : ""}>
          <button type="button" aria-expanded={open} onClick={toggle} className="fade flex items-center gap-1 rounded-row text-12 text-t3 hover:text-t1">
            <Icon name="chevron" size={12} className={open ? "rotate-90" : ""} />
            {isThinking ? strings.session.thinking : strings.session.thought(row.thoughtS ? seconds(row.thoughtS) : "")}
          </button>
          {open && <div className="mt-1 border-l-2 pl-3 text-13 whitespace-pre-wrap text-t2"><SafeText text={row.thinking} /></div>}
        </div>
      )}
      {row.again && <p className="text-warn"><SafeText text={strings.session.again(row.again)} /></p>}
      {row.text && <Markdown text={row.text} />}
    </div>
  );
}

const NOTE_TONES = { info: "text-t3", ok: "text-ok", warn: "text-warn", bad: "text-bad" };
const NOTE_ICONS: Partial<Record<string, IconName>> = { proposed: "diff", helperStarted: "spark", helperEnded: "spark", helperMerged: "diff", helperDropped: "cross", undone: "undo", redone: "redo", compacted: "spark", egress: "globe", step: "spark", parked: "pause", paused: "pause", ended: "stop", installing: "download", installed: "check", attached: "folder", notInstalled: "cross", service: "play", serviceReady: "check", serviceFailed: "cross", crashed: "retry", omitted: "cross" };

const PERSON_NOTES = new Set(["paused", "resumed", "debugStarted"]); // their detail is a user

const notes: Partial<Record<string, string>> = helperNotes;

function NoteRow({ row }: { row: Note }) {
  const { nameOf } = useSessionContext();
  const [open, toggle] = useOpen(row.id, false);
  const text = row.what === "compacted" ? row.text.split("→").map((each) => tokens(Number(each))).join(" → ") : row.what === "debugDriver" ? nameOf(row.text) : row.text;
  const isPerson = PERSON_NOTES.has(row.what);
  const label: string | undefined = strings.session.note[row.what] ?? notes[row.what];
  const long = (!isPerson && row.detail.length > 60) || text.length > MAX_NOTE_CHARS;
  return (
    <div className="px-3">
      <div className={`flex min-h-7 items-center gap-2 text-12 ${NOTE_TONES[row.tone]}`}>
        <Icon name={NOTE_ICONS[row.what] ?? "log"} size={14} />
        <span className={`my-1 min-w-0 break-words ${open ? "" : "line-clamp-3"}`} title={long ? "" : showHidden(text)}>
          {label ?? row.what}{text && label ? ": " : ""}<SafeText text={text} />
          {row.detail && (!long || row.detail.length <= 60) && <span className="text-t3"> · <SafeText text={isPerson ? nameOf(row.detail) : row.detail} /></span>}
        </span>
        {long && <IconButton icon={open ? "down" : "chevron"} label={open ? strings.session.less : strings.session.all} onClick={toggle} size={12} />}
        {row.what === "proposed" && row.link && <StateOf change={row.link} />}
        {row.link && <Link href={row.what.startsWith("helper") ? `/s/${row.link}` : `/c/${row.link}`} className="text-link underline">{strings.session.open}</Link>}
      </div>
      {open && row.detail.length > 60 && !isPerson && <p className="mb-2 ml-6 max-w-[72ch] text-13 whitespace-pre-wrap text-t2"><SafeText text={row.detail} /></p>}
    </div>
  );
}

/** Steps of Hutch that follow each other: the newest one, which opens to all of them. */
export function StepsRow({ id, rows }: { id: string; rows: Note[] }) {
  const [open, toggle] = useOpen(id, false);
  const last = rows.at(-1);
  if (open || !last) {
    return (
      <div className="relative">
        {rows.map((row) => <NoteRow key={row.id} row={row} />)}
        <IconButton icon="down" label={strings.session.less} aria-expanded onClick={toggle} size={12} className="absolute top-0.5 right-3" />
      </div>
    );
  }
  return (
    <div className={rows.every((row) => row.undone) ? "px-3 opacity-60" : "px-3"}>
      <button type="button" aria-expanded={false} onClick={toggle} className="row-h inset-focus flex w-full items-center gap-2 rounded-row text-left text-12 text-t3 hover:bg-hover">
        <Icon name="spark" size={14} />
        <span className="min-w-0 grow truncate"><SafeText text={last.text} /></span>
        <span className="shrink-0">{strings.session.steps(rows.length)}</span>
        <Icon name="chevron" size={12} />
      </button>
    </div>
  );
}

/** The state of a proposed change. It is merged or closed outside the session, so the log does not have it. */
function StateOf({ change }: { change: string }) {
  const { id } = useSessionContext();
  const found = useChangesOf(id, true).data?.find((each) => each.id === change);
  return found && found.state !== "open" ? <ChangeState state={found.state} /> : null;
}

function UserCommandRow({ row }: { row: UserCommand }) {
  const { nameOf } = useSessionContext();
  const failed = row.command.ended && (row.command.exitCode ?? 1) !== 0;
  const [open, toggle] = useOpen(row.id, false);
  return (
    <div className="px-3">
      <button type="button" aria-expanded={open} onClick={toggle} className="row-h inset-focus flex w-full items-center gap-2 rounded-row text-left hover:bg-hover">
        <Icon name="terminal" size={14} className="text-t3" />
        <span className="text-12 text-t3"><SafeText text={nameOf(row.by)} /></span>
        <code className="min-w-0 grow truncate"><SafeText text={row.command.text} /></code>
        <span className={`shrink-0 text-12 whitespace-nowrap ${failed ? "text-bad" : "text-t3"}`}>{row.command.ended ? commandEnd(row.command) : strings.session.testsRunning}</span>
      </button>
      {open && <CommandOutput output={row.output} command={row.command} />}
    </div>
  );
}

function UserTestsRow({ row }: { row: UserTests }) {
  const { nameOf } = useSessionContext();
  const [open, toggle] = useOpen(row.id, !row.tests.running && !row.tests.ok);
  return (
    <div className="px-3">
      <button type="button" aria-expanded={open} onClick={toggle} className="row-h inset-focus flex w-full items-center gap-2 rounded-row text-left hover:bg-hover">
        <Icon name="test" size={14} className={row.tests.running ? "text-t3" : row.tests.ok ? "text-ok" : "text-bad"} />
        <span className="text-12 text-t3"><SafeText text={nameOf(row.by)} /></span>
        <span className="min-w-0 grow truncate">{testsSummary(row.tests)}</span>
        <span className="text-12 text-t3">{row.tests.running ? "" : seconds(row.tests.durationS)}</span>
      </button>
      {open && <TestsDetail tests={row.tests} />}
    </div>
  );
}

// A tool call as one line that opens: icon, verb, target, result, duration. Failures open themselves.
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { type Schemas, get } from "../../api/http_client";
import type { Command, Output, Tests, Tool } from "../../fold/view_types";
import { bytes, commandEnd, seconds } from "../../display_format";
import { Ansi, plain } from "../../shared/ansi_text";
import { CopyButton } from "../../shared/copy_button";
import { Added, Button } from "../../shared/form_controls";
import { countEdit, parsePatch } from "../../shared/patch_parser";
import { DiffLines } from "../../shared/diff_lines";
import { Icon, type IconName } from "../../shared/icons";
import { ProblemLine } from "../../shared/error_message";
import { SafeText, showHidden } from "../../shared/safe_text";
import { strings } from "../../strings";
import { QuestionInConversation } from "./approval_and_question_card";
import { useSessionContext } from "./session_context";
import { useOpen } from "./expanded_rows";
import { argumentsOf, hasFailed, isSearch } from "./conversation_items";
import { RejectButton } from "./undo_dialog";

const ICONS: Record<string, IconName> = {
  read_file: "file", list_directory: "folder", glob: "search", grep: "search", edit_file: "edit", write_file: "edit", apply_patch: "edit", delete_file: "edit", move_file: "edit",
  bash: "terminal", exec: "terminal", bash_output: "terminal", bash_kill: "terminal", run_tests: "test", ask_user: "question", finish: "check", review_comment: "diff",
};
const FIRST_LINES = 12;
const EDITS = new Set(["edit_file", "write_file", "apply_patch", "delete_file", "move_file"]);

export function GroupRow({ id, rows }: { id: string; rows: Tool[] }) {
  const [open, toggle] = useOpen(id, false);
  const searches = rows.filter((row) => isSearch(row.tool)).length;
  const total = rows.reduce((sum, row) => sum + row.durationS, 0);
  return (
    <div className={rows.every((row) => row.undone) ? "opacity-60" : ""}>
      <div className="px-3">
        <button type="button" aria-expanded={open} onClick={toggle} className="row-h inset-focus flex w-full items-center gap-2 rounded-row text-left text-t2 hover:bg-hover">
          <Icon name="chevron" size={14} className={`text-t3 ${open ? "rotate-90" : ""}`} />
          <span className="grow">{strings.session.reads(rows.length - searches, searches)}</span>
          <span className="text-12 text-t3">{seconds(total)}</span>
        </button>
      </div>
      {open && <div className="pl-4">{rows.map((row) => <ToolRow key={row.id} row={row} />)}</div>}
    </div>
  );
}

export function ToolRow({ row }: { row: Tool }) {
  const failed = hasFailed(row);
  const opensItself = failed && row.status !== "asking" && !row.undone && !row.approval?.helper;
  const [open, toggle] = useOpen(row.id, opensItself);
  const done = row.status === "ok" || row.status === "failed";
  return (
    <div className="px-3">
      <button type="button" aria-expanded={open} onClick={toggle} className="row-h inset-focus flex w-full items-center gap-2 rounded-row text-left hover:bg-hover">
        <Icon name={row.status === "asking" ? "ask" : failed ? "cross" : ICONS[row.tool] ?? "spark"} size={14} className={failed ? "text-bad" : row.status === "asking" ? "text-warn" : "text-t3"} />
        <span className="min-w-0 grow truncate"><Closed row={row} /></span>
        <Result row={row} failed={failed} />
        {done && row.durationS > 0 && <span className="min-w-14 shrink-0 text-right text-12 whitespace-nowrap text-t3">{seconds(row.durationS)}</span>}
        {!done && row.status !== "next" && row.status !== "asking" && <span className="dot-running size-1.5 shrink-0 rounded-full bg-info" />}
      </button>
      {row.status === "running" && row.command && !open && row.output.chars > 0 && (
        <p className="ml-6 truncate pb-1 font-mono text-12 text-t3"><SafeText text={lastLine(row.output)} /></p>
      )}
      {row.tests?.running && row.tests.lastLine && <p className="ml-6 truncate pb-1 font-mono text-12 text-t3"><SafeText text={plain(row.tests.lastLine)} /></p>}
      {(row.approval || row.question) && <QuestionInConversation row={row} />}
      {open && <Opened row={row} />}
    </div>
  );
}

const lastLine = (output: Output) => plain((output.pieces.at(-1) ?? "").trimEnd().split("\n").at(-1) ?? "");
const text = (value: unknown) => (typeof value === "string" ? value : "");

function Closed({ row }: { row: Tool }): ReactNode {
  const args = argumentsOf(row);
  const path = text(args["path"]);
  switch (row.tool) {
    case "bash": return <code><SafeText text={text(args["command"]).split("\n")[0] ?? ""} /></code>;
    case "exec": return <code><SafeText text={Array.isArray(args["argv"]) ? args["argv"].join(" ") : ""} /></code>;
    case "read_file": return <code><SafeText oneLine text={path} />{args["start_line"] ? ` ${String(args["start_line"])}–${String(args["end_line"] ?? "")}` : ""}</code>;
    case "grep":
    case "glob": return <><span className="text-t2">{row.tool}</span> <code><SafeText text={text(args["pattern"])} /></code></>;
    case "edit_file":
    case "write_file":
    case "apply_patch": {
      const names = row.files.length ? row.files.map((file) => file.path) : path ? [path] : [];
      return names.length === 1 ? <code><SafeText text={names[0] ?? ""} /></code> : names.length ? strings.session.files_(names.length) : <span className="text-t2">{row.tool}</span>;
    }
    case "run_tests": return <><span className="text-t2">{row.tests?.command || row.tool}</span></>;
    case "ask_user": return <SafeText text={strings.session.asked(row.question?.text ?? text(args["question"]))} />;
    case "finish": return <SafeText text={text(args["title"]) || row.tool} />;
    default: return <><span className="text-t2"><SafeText text={row.tool} /></span> <code><SafeText text={path || text(Object.values(args)[0])} /></code></>;
  }
}

function Result({ row, failed }: { row: Tool; failed: boolean }): ReactNode {
  if (row.status === "writing" || row.status === "next") return <span className="text-12 text-t3">{row.status === "next" ? strings.session.next : strings.session.writing}</span>;
  if (row.tests) return <span className={`text-12 whitespace-nowrap ${row.tests.running ? "text-t3" : row.tests.ok ? "text-ok" : "text-bad"}`}>{testsSummary(row.tests)}</span>;
  if (row.command) {
    const { exitCode, background, ended } = row.command;
    if (background) return <span className="text-12 text-t3">{strings.session.background(background)}</span>;
    if (!ended) return null;
    return exitCode === 0 ? null : <span className={`text-12 whitespace-nowrap ${failed ? "text-bad" : "text-t3"}`}>{commandEnd(row.command)}</span>;
  }
  // The call does not contain the previous content of a file: a count of its new lines alone would be wrong.
  if (row.tool === "write_file" && row.status === "ok" && row.files[0]?.kind === "modified") return <span className="text-12 text-t3">{strings.session.rewritten}</span>;
  const counts = editCounts(row);
  return counts && row.status === "ok" ? <Added {...counts} /> : null;
}

function editCounts(row: Tool): { added: number; deleted: number } | null {
  const args = argumentsOf(row);
  if (row.tool === "write_file") return { added: text(args["content"]).replace(/\n$/, "").split("\n").length, deleted: 0 };
  if (row.tool !== "edit_file" || !Array.isArray(args["edits"])) return null;
  let [added, deleted] = [0, 0];
  for (const edit of args["edits"] as Record<string, unknown>[]) {
    const counted = countEdit(text(edit["old"]), text(edit["new"]));
    added += counted.added;
    deleted += counted.deleted;
  }
  return { added, deleted };
}

function Opened({ row }: { row: Tool }): ReactNode {
  const { openFile } = useSessionContext();
  const args = argumentsOf(row);
  if (row.command) return <CommandOutput output={row.output} command={row.command} />;
  if (row.tests && !row.tests.running) return <TestsDetail tests={row.tests} />;
  if (row.files.length) return <div className="mb-2 space-y-2">{row.files.map((file, index) => <FileDiffView key={file.seq} seq={file.seq} path={file.path}>{index === 0 && EDITS.has(row.tool) && <RejectButton row={row} />}</FileDiffView>)}</div>;
  if (row.tool === "finish") return <p className="mb-2 ml-6 max-w-[72ch] whitespace-pre-wrap text-t2"><SafeText text={text(args["summary"])} /></p>;
  const path = text(args["path"]);
  return (
    <div className="mb-2 ml-6">
      <Clipped content={row.text || row.arguments} isMessage={row.status === "failed"} />
      {row.rule && <p className="meta mt-1"><SafeText text={strings.session.deniedBy(row.rule)} /></p>}
      {path && row.tool === "read_file" && row.status === "ok" && <Button kind="quiet" small className="mt-1" onClick={() => openFile(path, Number(args["start_line"]) || 1)}>{strings.session.openFile}</Button>}
    </div>
  );
}

/** `isMessage`: sentences, which are wrapped; the lines of files are not. */
function Clipped({ content, isMessage }: { content: string; isMessage: boolean }) {
  const [all, setAll] = useState(false);
  const lines = content.trimEnd().split("\n");
  const shown = all ? lines : lines.slice(0, FIRST_LINES);
  return (
    <>
      <pre tabIndex={0} className={`max-h-96 overflow-auto rounded-row border bg-code px-2 py-1 leading-5 text-t1 ${isMessage ? "whitespace-pre-wrap [overflow-wrap:anywhere]" : ""}`}><SafeText text={shown.map((line) => line.slice(0, 2000)).join("\n")} /></pre>
      {lines.length > FIRST_LINES && <Button kind="quiet" small className="mt-1" onClick={() => setAll(!all)}>{all ? strings.session.less : `${strings.session.all} · ${strings.session.lines(lines.length)}`}</Button>}
    </>
  );
}

/** The end of an output says why a command failed. */
const toEnd = (element: HTMLElement | null) => { if (element) element.scrollTop = element.scrollHeight; };

export function CommandOutput({ output, command }: { output: Output; command: Command }) {
  const content = output.pieces.join("");
  return (
    <div className="mb-2 ml-6 overflow-hidden rounded-row border bg-code">
      <div className="flex items-start gap-2 border-b px-2 py-1">
        <pre className="min-w-0 grow overflow-x-auto leading-5 whitespace-pre-wrap"><SafeText text={command.text} /></pre>
        <CopyButton text={() => plain(content)} />
      </div>
      {output.skipped > 0 && <p className="meta px-2 py-0.5">{strings.session.skipped(bytes(output.skipped))}</p>}
      {content && <pre ref={toEnd} tabIndex={0} className="max-h-80 overflow-auto px-2 py-1 leading-5 whitespace-pre-wrap text-t1 [overflow-wrap:anywhere]"><Ansi text={content} /></pre>}
    </div>
  );
}

export function testsSummary(tests: Tests): string {
  if (tests.running) return strings.session.testsRunning;
  const change = strings.session.fixedBroke(tests.fixed, tests.broke);
  return `${strings.session.failedPassed(tests.failed, tests.passed)}${change ? ` · ${change}` : ""}`;
}

/** The last part of a dotted name, which differs from test to test. */
const shortTestName = (name: string) => (/^[\w.]+$/.test(name) ? name.split(".").at(-1) || name : name);

export function TestsDetail({ tests }: { tests: Tests }) {
  const { openFile, showPanel } = useSessionContext();
  return (
    <div className="mb-2 ml-6 rounded-row border bg-code px-2 py-1">
      {tests.reason && <p className="whitespace-pre-wrap text-bad"><SafeText text={tests.reason} /></p>}
      {tests.cases.slice(0, 20).map((each) => (
        <div key={`${each.suite}:${each.name}`} className="py-0.5">
          <button type="button" className="fade flex w-full items-center gap-2 rounded-row text-left hover:bg-hover" onClick={() => each.file && openFile(each.file, each.line ?? 1)}>
            <Icon name="cross" size={12} className="text-bad" />
            <span className="min-w-0 grow truncate font-semibold" title={showHidden(each.name)}><SafeText text={shortTestName(each.name)} /></span>
            {each.file && <span className="shrink-0 text-12 text-link"><SafeText text={`${each.file}:${each.line ?? ""}`} /></span>}
          </button>
          {each.message && <pre tabIndex={0} className="max-h-40 overflow-auto pl-5 leading-5 whitespace-pre-wrap text-t2"><SafeText text={each.message} /></pre>}
        </div>
      ))}
      <Button kind="quiet" small onClick={() => showPanel("tests")}>{strings.session.allTests}</Button>
    </div>
  );
}

function FileDiffView({ seq, path, children }: { seq: number; path: string; children?: ReactNode }) {
  const { id, openFile } = useSessionContext();
  const diff = useQuery({ queryKey: ["event-diff", id, seq], queryFn: () => get<Schemas["Difference"]>(`/sessions/${id}/events/${seq}/diff`), staleTime: Infinity });
  return (
    <div className="ml-6 overflow-hidden rounded-row border">
      <div className="flex items-center gap-2 border-b bg-code px-2">
        <code className="min-w-0 grow truncate"><SafeText oneLine text={path} /></code>
        {children}
        <Button kind="quiet" small onClick={() => openFile(path)}>{strings.session.openFile}</Button>
      </div>
      {diff.isError && <ProblemLine error={diff.error} />}
      {diff.data && parsePatch(diff.data.patch).map((file) => <DiffLines key={file.path} file={file} />)}
    </div>
  );
}

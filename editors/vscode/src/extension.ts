// The extension: its parts, and what each command does.
import * as vscode from "vscode";
import { Connection } from "./connection";
import { CALL_SCHEME, Decisions } from "./approvals_and_questions";
import { NewSessions } from "./new_session";
import { problemText } from "./problem_text";
import { FILE_SCHEME, SessionFiles } from "./changed_files_and_diffs";
import { sessionName, stateText } from "./session_format";
import { type Listed, SessionList, type Waiting } from "./session_list";
import { openTerminal } from "./session_terminal";
import { type Node, SessionTree } from "./session_tree";
import { signIn } from "./sign_in";
import { StatusBar } from "./status_bar";
import { TASKS_FILES, TaskLenses } from "./task_lenses";
import { taskLines, taskPrompt } from "./task_lines";

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const connection = new Connection(context.secrets);
  const list = new SessionList(connection);
  const files = new SessionFiles(connection, list);
  const decisions = new Decisions(connection, list);
  const newSessions = new NewSessions(connection, list);
  const tree = new SessionTree(connection, list, files);
  const lenses = new TaskLenses(list, context.workspaceState);
  const view = vscode.window.createTreeView("hutch.sessions", { treeDataProvider: tree, showCollapseAll: true });

  /** The session of a tree item, else the one selected in the tree, else one to choose. */
  async function chosen(node: Node | undefined): Promise<Listed | undefined> {
    const selected = node ?? view.selection[0];
    const id = selected?.kind === "session" ? selected.id : selected?.kind === "file" ? selected.session : "";
    const found = list.find(id);
    if (found) return found;
    if (list.sessions.length === 0) throw new Error(connection.state === "connected" ? "There is no session. Start one first." : "No Hutch server is connected.");
    const items = list.sessions.map((listed) => ({ label: sessionName(listed.row), description: stateText(listed.row), listed }));
    return (await vscode.window.showQuickPick(items, { title: "Which session?" }))?.listed;
  }

  async function reveal(id: string | undefined): Promise<void> {
    if (id && list.find(id)) await view.reveal({ kind: "session", id }, { select: true });
  }

  async function runTask(uri: vscode.Uri, line: number, title: string): Promise<void> {
    const document = await vscode.workspace.openTextDocument(uri);
    const tasks = taskLines(document.getText()).filter((each) => each.title === title);
    const task = tasks.find((each) => each.line === line) ?? tasks[0]; // lines may have moved
    if (!task) throw new Error("This task is no longer in the file.");
    const session = await newSessions.start(taskPrompt(task, vscode.workspace.asRelativePath(uri, false)), uri);
    await lenses.remember(uri, task, session.id);
    await reveal(session.id);
  }

  async function prompt(listed: Listed): Promise<void> {
    const text = await vscode.window.showInputBox({ title: `Message to ${sessionName(listed.row)}`, prompt: "An agent at work gets it before its next step. Otherwise it starts a run." });
    if (text?.trim()) await decisions.give(listed.row.id, "message", { text });
  }

  async function end(listed: Listed): Promise<void> {
    const isSure = await vscode.window.showWarningMessage(`End “${sessionName(listed.row)}”?`, { modal: true, detail: "Its files can still be read and compared. Nothing more runs in it." }, "End the Session");
    if (isSure) await decisions.give(listed.row.id, "end", {});
  }

  const waitingOf = (node: Node | undefined): Waiting | undefined => (node?.kind === "waiting" ? node.waiting : undefined);
  const forSession = (action: (listed: Listed) => Promise<unknown>) => async (node?: Node) => {
    const listed = await chosen(node);
    if (listed) await action(listed);
  };
  const forApproval = (action: (waiting: Waiting & { kind: "approval" }) => Promise<void>) => async (node?: Node) => {
    const waiting = waitingOf(node);
    if (waiting?.kind === "approval") await action(waiting);
  };

  const commands: Record<string, (...given: never[]) => unknown> = {
    "hutch.newSession": async () => reveal((await newSessions.fromPrompt())?.id),
    "hutch.newSessionFromSelection": async () => reveal((await newSessions.fromSelection())?.id),
    "hutch.runTask": runTask,
    "hutch.showWaiting": () => decisions.showWaiting(),
    "hutch.approve": forApproval((waiting) => decisions.approve(waiting)),
    "hutch.deny": forApproval((waiting) => decisions.deny(waiting)),
    "hutch.review": forApproval((waiting) => decisions.review(waiting)),
    "hutch.answer": async (node?: Node) => {
      const waiting = waitingOf(node);
      if (waiting?.kind === "question") await decisions.answer(waiting);
    },
    "hutch.showChanges": forSession(({ row }) => files.showAll(row.id)),
    "hutch.showFileChange": async (node?: Node) => {
      if (node?.kind === "file") await files.showFile(node.session, node.file);
    },
    "hutch.openTerminal": forSession((listed) => openTerminal(connection, listed)),
    "hutch.openInWebApp": forSession(async ({ row }) => vscode.env.openExternal(vscode.Uri.parse(`${connection.address?.url ?? ""}/s/${row.id}`, true))),
    "hutch.prompt": forSession(prompt),
    "hutch.stop": forSession(({ row }) => decisions.give(row.id, "cancel", {})),
    "hutch.end": forSession(end),
    "hutch.signIn": () => signIn(connection),
    "hutch.signOut": () => connection.signOut(),
    "hutch.refresh": async () => {
      await connection.find();
      await list.refresh();
      if (list.problem) throw list.problem;
    },
    "hutch.startServer": () => {
      const terminal = vscode.window.createTerminal("hutch up");
      terminal.show();
      terminal.sendText("hutch up --detach");
    },
  };

  context.subscriptions.push(
    connection, list, files, tree, lenses, view, new StatusBar(connection, list),
    ...Object.entries(commands).map(([name, action]) => vscode.commands.registerCommand(name, shown(action as (...given: unknown[]) => unknown))),
    vscode.workspace.registerTextDocumentContentProvider(FILE_SCHEME, files),
    vscode.workspace.registerTextDocumentContentProvider(CALL_SCHEME, decisions),
    vscode.languages.registerCodeLensProvider(TASKS_FILES, lenses),
    list.onDidAsk((waiting) => void shown(() => decisions.notify(waiting))()),
    list.onDidChange(() => {
      const { length } = list.waiting;
      view.badge = length > 0 ? { value: length, tooltip: `${length} waiting for you` } : undefined;
    }),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("hutch.home")) void connection.find();
      if (change.affectsConfiguration("hutch.showEnded")) void list.refresh();
    }),
  );
  await connection.find();
}

/** A command that shows its error. */
function shown(action: (...given: unknown[]) => unknown): (...given: unknown[]) => Promise<void> {
  return async (...given) => {
    try {
      await action(...given);
    } catch (error) {
      void vscode.window.showErrorMessage(problemText(error));
    }
  };
}

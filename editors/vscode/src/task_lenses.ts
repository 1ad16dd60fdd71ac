// "Run with Hutch" above each open task of a TASKS.md, and the state of its session after that.
import * as vscode from "vscode";
import { costText, stateText } from "./session_format";
import { type SessionList, isBusy } from "./session_list";
import { type TaskLine, taskLines } from "./task_lines";

export const TASKS_FILES: vscode.DocumentSelector = { pattern: "**/TASKS.md" };

export class TaskLenses implements vscode.CodeLensProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  private readonly subscriptions: vscode.Disposable[];
  readonly onDidChangeCodeLenses = this.changed.event;

  constructor(private readonly list: SessionList, private readonly started: vscode.Memento) {
    this.subscriptions = [list.onDidChange(() => this.changed.fire()), vscode.workspace.onDidChangeConfiguration(() => this.changed.fire())];
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    if (!vscode.workspace.getConfiguration("hutch").get<boolean>("taskCodeLens", true)) return [];
    return taskLines(document.getText()).filter((task) => task.isOpen).flatMap((task) => this.lensesOf(document.uri, task));
  }

  /** Keep which session works on a task. */
  async remember(uri: vscode.Uri, task: TaskLine, session: string): Promise<void> {
    await this.started.update(memoryKey(uri, task), session);
    this.changed.fire();
  }

  dispose(): void {
    for (const each of this.subscriptions) each.dispose();
    this.changed.dispose();
  }

  private lensesOf(uri: vscode.Uri, task: TaskLine): vscode.CodeLens[] {
    const range = new vscode.Range(task.line, 0, task.line, 0);
    const run = new vscode.CodeLens(range, { title: "$(play) Run with Hutch", tooltip: "Give this task to an agent", command: "hutch.runTask", arguments: [uri, task.line, task.title] });
    const listed = this.list.find(this.started.get<string>(memoryKey(uri, task), ""));
    if (!listed) return [run];
    const node = { kind: "session", id: listed.row.id };
    const title = `$(shield) ${[stateText(listed.row), costText(listed)].filter(Boolean).join(" · ")}`;
    const show = new vscode.CodeLens(range, { title, tooltip: "Open the session in the web app", command: "hutch.openInWebApp", arguments: [node] });
    const changes = new vscode.CodeLens(range, { title: "Changes", command: "hutch.showChanges", arguments: [node] });
    return isBusy(listed.row) ? [show, changes] : [show, changes, run];
  }
}

const memoryKey = (uri: vscode.Uri, task: TaskLine): string => `task ${uri.toString()} ${task.key || task.title}`;

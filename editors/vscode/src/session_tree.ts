// The sessions as a tree: what waits, helpers, and changed files below each.
import * as vscode from "vscode";
import type { Connection } from "./connection";
import { sessionName, costText, stateIcon, stateText, waitingText } from "./session_format";
import { type Listed, type SessionList, type Waiting, isBusy } from "./session_list";
import type { ChangedFile, SessionFiles } from "./changed_files_and_diffs";
import { MAX_FILES, MAX_LABEL_CHARS } from "./limits";
import { plainText } from "./untrusted_text";
import { problemText } from "./problem_text";

export type Node =
  | { kind: "session"; id: string }
  | { kind: "waiting"; waiting: Waiting }
  | { kind: "file"; session: string; file: ChangedFile }
  | { kind: "note"; text: string };

export class SessionTree implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<Node | undefined>();
  private readonly subscriptions: vscode.Disposable[];
  readonly onDidChangeTreeData = this.changed.event;

  constructor(private readonly connection: Connection, private readonly list: SessionList, private readonly files: SessionFiles) {
    this.subscriptions = [list.onDidChange(() => this.changed.fire(undefined))];
  }

  getTreeItem(node: Node): vscode.TreeItem {
    switch (node.kind) {
      case "session": return this.sessionItem(node.id);
      case "waiting": return waitingItem(node.waiting);
      case "file": return fileItem(node.session, node.file);
      case "note": return new vscode.TreeItem(node.text);
    }
  }

  async getChildren(node?: Node): Promise<Node[]> {
    if (!node) return this.roots();
    if (node.kind !== "session") return [];
    const listed = this.list.find(node.id);
    if (!listed) return [];
    const waiting = listed.waiting.map((each): Node => ({ kind: "waiting", waiting: each }));
    const helpers = this.list.sessions.filter((each) => each.row.parent === node.id).map((each): Node => ({ kind: "session", id: each.row.id }));
    return [...waiting, ...helpers, ...await this.fileNodes(listed)];
  }

  getParent(node: Node): Node | undefined {
    const parent = node.kind === "session" ? this.list.find(node.id)?.row.parent : node.kind === "file" ? node.session : node.kind === "waiting" ? node.waiting.session : "";
    return parent && this.list.find(parent) ? { kind: "session", id: parent } : undefined;
  }

  dispose(): void {
    for (const each of this.subscriptions) each.dispose();
    this.changed.dispose();
  }

  private roots(): Node[] {
    if (this.connection.state !== "connected") return [];
    const { sessions, problem, hasMore } = this.list;
    if (problem && sessions.length === 0) return [{ kind: "note", text: problemText(problem) }];
    const ids = new Set(sessions.map((each) => each.row.id));
    const roots = sessions.filter((each) => !each.row.parent || !ids.has(each.row.parent)).map((each): Node => ({ kind: "session", id: each.row.id }));
    return hasMore ? [...roots, { kind: "note", text: "Older sessions are in the web app." }] : roots;
  }

  private async fileNodes({ row }: Listed): Promise<Node[]> {
    try {
      const { files, total } = await this.files.changedFiles(row);
      const shown = files.slice(0, MAX_FILES).map((file): Node => ({ kind: "file", session: row.id, file }));
      if (total > shown.length) return [...shown, { kind: "note", text: `${total - shown.length} more files are in the web app.` }];
      return total > 0 ? shown : [{ kind: "note", text: isBusy(row) ? "No file has changed yet." : "No file has changed." }];
    } catch (error) {
      return [{ kind: "note", text: problemText(error) }];
    }
  }

  private sessionItem(id: string): vscode.TreeItem {
    const listed = this.list.find(id);
    if (!listed) return new vscode.TreeItem(id);
    const { row, waiting } = listed;
    // What waits must be seen.
    const item = new vscode.TreeItem(sessionName(row), waiting.length > 0 ? vscode.TreeItemCollapsibleState.Expanded : vscode.TreeItemCollapsibleState.Collapsed);
    item.id = waiting.length > 0 ? `${id} waiting` : id; // VS Code keeps the state of an id
    item.description = [stateText(row), costText(listed)].filter(Boolean).join(" · ");
    item.iconPath = new vscode.ThemeIcon(stateIcon(row), row.state === "waiting" ? new vscode.ThemeColor("list.warningForeground") : undefined);
    item.contextValue = row.state === "ended" ? "session.ended" : isBusy(row) ? "session.open.busy" : "session.open";
    item.tooltip = [sessionName(row), `${row.id}, of ${plainText(row.owner_name)}`, plainText(row.repository), plainText(row.last_run?.reason ?? "")].filter(Boolean).join("\n");
    item.accessibilityInformation = { label: `Session ${sessionName(row)}, ${item.description}` };
    return item;
  }
}

function waitingItem(waiting: Waiting): vscode.TreeItem {
  const item = new vscode.TreeItem(waitingText(waiting));
  item.contextValue = waiting.kind;
  item.description = waiting.kind === "approval" ? "waits for your approval" : "waits for your answer";
  item.iconPath = new vscode.ThemeIcon(waiting.kind === "approval" ? "shield" : "question", new vscode.ThemeColor("list.warningForeground"));
  item.tooltip = waitingText(waiting, 2000);
  const command = waiting.kind === "approval" ? "hutch.review" : "hutch.answer";
  item.command = { command, title: "Show", arguments: [{ kind: "waiting", waiting }] };
  return item;
}

function fileItem(session: string, file: ChangedFile): vscode.TreeItem {
  const item = new vscode.TreeItem(plainText(file.path, MAX_LABEL_CHARS));
  const lines = file.added === null ? "binary" : `+${file.added} −${file.deleted ?? 0}`;
  item.description = file.kind === "modified" ? lines : `${file.kind}, ${lines}`;
  item.contextValue = "file";
  item.iconPath = new vscode.ThemeIcon({ added: "diff-added", deleted: "diff-removed", modified: "diff-modified", renamed: "diff-renamed", retyped: "diff-modified" }[file.kind]);
  item.command = { command: "hutch.showFileChange", title: "Show the Change", arguments: [{ kind: "file", session, file }] };
  return item;
}

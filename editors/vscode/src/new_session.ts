// New sessions: from a prompt, from the selection, from a task.
import * as vscode from "vscode";
import type { NewSession, SessionRow } from "../../../clients/typescript/src/index";
import type { Connection } from "./connection";
import { MAX_SELECTION_CHARS } from "./limits";
import { repositoryOf } from "./new_session_repository";
import type { SessionList } from "./session_list";

export class NewSessions {
  constructor(private readonly connection: Connection, private readonly list: SessionList) {}

  async fromPrompt(): Promise<SessionRow | undefined> {
    const prompt = await vscode.window.showInputBox({ title: "Start a session", prompt: "What should the agent do? It works on the last commit.", placeHolder: "Make the failing test pass" });
    return prompt?.trim() ? this.start(prompt, vscode.window.activeTextEditor?.document.uri) : undefined;
  }

  async fromSelection(): Promise<SessionRow | undefined> {
    const editor = vscode.window.activeTextEditor;
    if (!editor) throw new Error("Open a file and select code first.");
    const { document, selection } = editor;
    const range = selection.isEmpty ? document.lineAt(selection.active.line).range : selection;
    const code = document.getText(range);
    if (code.length > MAX_SELECTION_CHARS) throw new Error(`The selection has more than ${MAX_SELECTION_CHARS.toLocaleString("en")} characters. Select less.`);
    const path = vscode.workspace.asRelativePath(document.uri, false);
    const place = `${path}:${range.start.line + 1}${range.end.line > range.start.line ? `-${range.end.line + 1}` : ""}`;
    const wish = await vscode.window.showInputBox({ title: "Start a session from the selection", prompt: `What should the agent do with ${place}? It works on the last commit.`, placeHolder: "Handle an empty list" });
    return wish?.trim() ? this.start(selectionPrompt(wish, place, document.languageId, code), document.uri) : undefined;
  }

  /** Start a session, and list it. */
  async start(prompt: string, file?: vscode.Uri): Promise<SessionRow> {
    const repository = await repositoryOf(this.connection, file);
    const settings = vscode.workspace.getConfiguration("hutch", file);
    const what: NewSession = { prompt, repository, deliver: settings.get<boolean>("deliver", true) };
    const [model, persona] = [settings.get<string>("model", ""), settings.get<string>("persona", "")];
    const session = await this.connection.request<SessionRow>("POST", "/sessions", { ...what, ...(model ? { model } : {}), ...(persona ? { persona } : {}) });
    await this.list.refresh();
    return session;
  }
}

/** The code is fenced by more backticks than it has in a row. */
export function selectionPrompt(wish: string, place: string, language: string, code: string): string {
  const longest = Math.max(2, ...(code.match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${wish.trim()}\n\nThis is about ${place}, in my editor:\n\n${fence}${language}\n${code}\n${fence}`;
}

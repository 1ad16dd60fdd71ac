// The changed files of sessions, and both sides of each as read-only documents for VS Code's own diff editor.
import * as vscode from "vscode";
import { Problem, type Schemas, type SessionRow } from "../../../clients/typescript/src/index";
import type { Connection } from "./connection";
import { COST_INTERVAL_MS, MAX_FILE_BYTES, MAX_FILES } from "./limits";
import { textBefore } from "./patch_reversal";
import { plainText } from "./untrusted_text";
import { type SessionList, isBusy } from "./session_list";
import { sessionName } from "./session_format";
import { problemText } from "./problem_text";

export type ChangedFile = Schemas["Changed"];
type Side = "before" | "after";
type Changes = { files: ChangedFile[]; total: number };

export const FILE_SCHEME = "hutch-file";
const MAX_TRIES = 5; // the agent may write between two requests

export class SessionFiles implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly listings = new Map<string, { key: string; changes: Promise<Changes> }>();
  private readonly open = new Map<string, vscode.Uri>(); // documents that were shown, to be renewed
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  private readonly subscription: vscode.Disposable;
  readonly onDidChange = this.changed.event;

  constructor(private readonly connection: Connection, private readonly list: SessionList) {
    this.subscription = list.onDidChange(() => this.renew());
  }

  /** The files that differ from the session's start. Computed at most every few seconds while the agent works. */
  async changedFiles(row: SessionRow): Promise<Changes> {
    const key = `${row.state} ${row.updated_ms} ${isBusy(row) ? Math.floor(Date.now() / COST_INTERVAL_MS) : ""}`;
    const listing = this.listings.get(row.id);
    if (listing?.key === key) return listing.changes;
    const changes = this.difference(row.id, "", MAX_FILES);
    this.listings.set(row.id, { key, changes });
    changes.catch(() => this.listings.delete(row.id));
    return changes;
  }

  async showFile(session: string, file: ChangedFile): Promise<void> {
    const title = `${plainText(file.path, 80)} (${this.nameOf(session)})`;
    await vscode.commands.executeCommand("vscode.diff", this.uri(session, file, "before"), this.uri(session, file, "after"), title, { preview: true });
  }

  /** All changes of a session in one editor. */
  async showAll(session: string): Promise<void> {
    const { files, total } = await this.difference(session, "", MAX_FILES);
    if (total === 0) {
      void vscode.window.showInformationMessage(`No file of “${this.nameOf(session)}” has changed.`);
      return;
    }
    const side = (file: ChangedFile, which: Side) => (file.kind === (which === "before" ? "added" : "deleted") ? undefined : this.uri(session, file, which));
    const resources = files.map((file) => [this.uri(session, file, "after"), side(file, "before"), side(file, "after")]);
    await vscode.commands.executeCommand("vscode.changes", `Changes of ${this.nameOf(session)}`, resources);
    if (total > files.length) void vscode.window.showInformationMessage(`${files.length} of ${total} files are shown. The web app shows all.`);
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    this.open.set(uri.toString(), uri);
    const { session, file, side } = parseUri(uri);
    try {
      if (file.added === null) return "This file is binary. The web app and `hutch` can read it.\n";
      return await (side === "after" ? this.after(session, file) : this.before(session, file));
    } catch (error) {
      return `${problemText(error)}\n`;
    }
  }

  dispose(): void {
    this.subscription.dispose();
    this.changed.dispose();
  }

  private renew(): void {
    const shown = new Set(vscode.workspace.textDocuments.map((each) => each.uri.toString()));
    for (const [key, uri] of this.open) {
      if (!shown.has(key)) this.open.delete(key);
      else if (this.list.sessions.some(({ row }) => row.id === parseUri(uri).session && isBusy(row))) this.changed.fire(uri);
    }
  }

  private nameOf(session: string): string {
    const listed = this.list.find(session);
    return listed ? sessionName(listed.row) : session;
  }

  private uri(session: string, file: ChangedFile, side: Side): vscode.Uri {
    const path = side === "before" ? file.old_path ?? file.path : file.path;
    return vscode.Uri.from({ scheme: FILE_SCHEME, authority: session.replace("_", "-"), path: `/${path}`, query: JSON.stringify({ session, file, side }) });
  }

  private async difference(session: string, path: string, limit = 1): Promise<Schemas["Difference"]> {
    return this.connection.request("GET", `/sessions/${session}/diff?limit=${limit}&path=${encodeURIComponent(path)}`);
  }

  private async after(session: string, file: ChangedFile): Promise<string> {
    if (file.kind === "deleted") return "";
    const path = file.path.split("/").map(encodeURIComponent).join("/");
    const response = await this.connection.send("GET", `/sessions/${session}/files/${path}?optional=true`);
    if (Number(response.headers.get("content-length") ?? 0) > MAX_FILE_BYTES) {
      await response.body?.cancel();
      throw new Error("This file is too large for the diff editor.");
    }
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await response.arrayBuffer());
  }

  private async before(session: string, file: ChangedFile): Promise<string> {
    if (file.kind === "added") return "";
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const moved = file.kind === "renamed" && file.old_path; // without its new name it is a deleted file
      const [after, { patch, cut }] = await Promise.all([
        moved ? "" : this.after(session, file),
        this.difference(session, moved || file.path),
      ]);
      if (cut) throw new Error("The difference is too large for the diff editor. The web app shows it.");
      if (patch === "") return after; // changed back meanwhile
      const before = patch.includes("\n@@ ") ? textBefore(after, patch) : after; // else only its mode changed
      if (before !== null) return before;
    }
    throw new Problem(409, "conflict", "The file changes while it is read. Show it again in a moment.");
  }
}

function parseUri(uri: vscode.Uri): { session: string; file: ChangedFile; side: Side } {
  return JSON.parse(uri.query) as { session: string; file: ChangedFile; side: Side };
}

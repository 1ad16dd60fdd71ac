// The repository of a new session: that of the settings, else the open folder, as the server can reach it.
import { access } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as vscode from "vscode";
import type { Connection } from "./connection";

type GitRepository = { rootUri: vscode.Uri; state: { remotes: { name: string; fetchUrl?: string }[] } };
type GitExtension = { getAPI(version: 1): { getRepository(uri: vscode.Uri): GitRepository | null } };

export async function repositoryOf(connection: Connection, file?: vscode.Uri): Promise<string> {
  const folder = (file && vscode.workspace.getWorkspaceFolder(file)) ?? vscode.workspace.workspaceFolders?.[0];
  const named = vscode.workspace.getConfiguration("hutch", folder?.uri).get<string>("repository", "").trim();
  if (named) return named;
  if (!folder) throw new Error("No folder is open. Open the folder of a repository, or set `hutch.repository`.");
  if (!vscode.workspace.isTrusted) throw new Error("You have not trusted this folder. An agent would work on its content: trust it first (“Workspaces: Manage Workspace Trust”).");
  const inside = file?.scheme === "file" && file.fsPath.startsWith(folder.uri.fsPath) ? dirname(file.fsPath) : folder.uri.fsPath;
  if (connection.isLocal) {
    if (folder.uri.scheme !== "file") throw new Error("The open folder is not on this machine. Set `hutch.repository`.");
    return rootOf(inside);
  }
  return originOf(folder.uri);
}

/** The directory with `.git`, at or above this one. */
async function rootOf(directory: string): Promise<string> {
  for (let place = directory; ; place = dirname(place)) {
    if (await access(join(place, ".git")).then(() => true, () => false)) return place;
    if (dirname(place) === place) throw new Error("The open folder is not a git repository. Run `git init` and commit, or set `hutch.repository`.");
  }
}

async function originOf(uri: vscode.Uri): Promise<string> {
  const git = vscode.extensions.getExtension<GitExtension>("vscode.git");
  const remotes = git ? (await git.activate()).getAPI(1).getRepository(uri)?.state.remotes ?? [] : [];
  const url = (remotes.find((each) => each.name === "origin") ?? remotes[0])?.fetchUrl;
  if (!url) throw new Error("The server runs elsewhere, and the open folder has no git remote that it could fetch. Set `hutch.repository`.");
  return url.replace(/^(https?:\/\/)[^/@]*@/, "$1"); // a password is not for the server
}

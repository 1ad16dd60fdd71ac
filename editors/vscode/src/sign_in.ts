// Sign in with the address of a server and a token. Both are stored together, encrypted by VS Code.
import * as vscode from "vscode";
import { Problem } from "../../../clients/typescript/src/index";
import type { Connection } from "./connection";
import { problemText } from "./problem_text";
import { parseUrl } from "./server_address";

export async function signIn(connection: Connection): Promise<void> {
  const typed = await vscode.window.showInputBox({
    title: "Sign in to a Hutch server (1 of 2)",
    prompt: "The address of the server",
    placeHolder: "https://hutch.example.com",
    value: connection.address?.url ?? "",
    ignoreFocusOut: true,
    validateInput: urlProblem,
  });
  if (!typed) return;
  const url = parseUrl(typed);
  const token = await vscode.window.showInputBox({
    title: "Sign in to a Hutch server (2 of 2)",
    prompt: "A token. Create one in the web app (Settings), or with: hutch tokens create",
    password: true,
    ignoreFocusOut: true,
    validateInput: (value) => (/^[\u0021-\u007e]+$/.test(value.trim()) ? "" : "A token has letters, digits and signs without spaces. Copy it again."),
  });
  if (!token) return;
  try {
    await connection.signIn({ url, token: token.trim(), source: "sign-in" });
    void vscode.window.showInformationMessage(`Signed in to ${url} as ${connection.user?.name ?? "you"}.`);
  } catch (error) {
    const refused = error instanceof Problem && error.status === 401;
    void vscode.window.showErrorMessage(refused ? `${url} does not accept this token. Nothing was stored.` : problemText(error));
  }
}

function urlProblem(value: string): string {
  try {
    parseUrl(value);
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

// Approvals and questions: notifications, and the decisions of the user. A call that a notification cannot show whole is not
// approved from there, but after its whole text was shown.
import * as vscode from "vscode";
import { Problem, type Schemas } from "../../../clients/typescript/src/index";
import type { Connection } from "./connection";
import { DECISION_TIMEOUT_MS } from "./limits";
import { isShownWhole, plainText, visibleLines } from "./untrusted_text";
import { sessionName, waitingText } from "./session_format";
import type { Approval, Question, SessionList, Waiting } from "./session_list";

export const CALL_SCHEME = "hutch-call";
type Scope = Schemas["Approve"]["scope"];

export class Decisions implements vscode.TextDocumentContentProvider {
  private readonly texts = new Map<string, string>();

  constructor(private readonly connection: Connection, private readonly list: SessionList) {}

  async notify(waiting: Waiting): Promise<void> {
    if (!vscode.workspace.getConfiguration("hutch").get<boolean>("notifications", true)) return;
    const name = this.nameOf(waiting.session);
    if (waiting.kind === "question") {
      const choice = await vscode.window.showInformationMessage(`“${name}” asks: ${plainText(waiting.text)}`, "Answer");
      if (choice && await this.isOpen(waiting)) await this.answer(waiting);
      return;
    }
    const canApprove = isShownWhole(waiting.text);
    const buttons = canApprove ? ["Approve", "Deny", "Show"] : ["Show", "Deny"];
    const choice = await vscode.window.showWarningMessage(`“${name}” asks to run ${plainText(waiting.tool, 60)}: ${plainText(waiting.text)}`, ...buttons);
    if (!choice || !await this.isOpen(waiting)) return;
    if (choice === "Approve") await this.approve(waiting);
    else if (choice === "Deny") await this.deny(waiting);
    else await this.review(waiting);
  }

  /** Show the whole call, and ask. */
  async review(waiting: Approval): Promise<void> {
    const path = `/${waiting.session}/${encodeURIComponent(waiting.callId)}.txt`;
    const uri = vscode.Uri.from({ scheme: CALL_SCHEME, path });
    const rule = [`Asked by the rule: ${plainText(waiting.rule)}`, ...waiting.covers.map((each) => `“Approve for the Session” covers: ${plainText(each)}`)];
    this.texts.set(uri.toString(), `${plainText(waiting.tool)}\n${rule.join("\n")}\n\n${visibleLines(waiting.text)}\n`);
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uri), { preview: true });
    const scopes = waiting.covers.length > 0 ? ["Approve Once", "Approve for the Session"] : ["Approve Once"];
    const choice = await vscode.window.showWarningMessage(`“${this.nameOf(waiting.session)}” asks to run ${plainText(waiting.tool, 60)}. The whole call is in the editor.`, ...scopes, "Deny");
    if (choice === "Deny") await this.deny(waiting);
    else if (choice) await this.approve(waiting, choice === "Approve Once" ? "once" : "session");
  }

  async approve(waiting: Approval, scope: Scope = "once"): Promise<void> {
    await this.give(waiting.session, "approve", { call_id: waiting.callId, scope });
  }

  async deny(waiting: Approval): Promise<void> {
    const reason = await vscode.window.showInputBox({ title: "Deny the call", prompt: "The agent gets the reason. It may be empty.", placeHolder: "Do it without this" });
    if (reason !== undefined) await this.give(waiting.session, "deny", { call_id: waiting.callId, reason });
  }

  async answer(waiting: Question): Promise<void> {
    const title = plainText(waiting.text);
    const other = "Another answer…";
    let text: string | undefined;
    if (waiting.choices.length > 0) {
      const items = [...waiting.choices.map((choice) => ({ label: plainText(choice), choice })), { label: other, choice: "" }];
      const picked = await vscode.window.showQuickPick(items, { title });
      if (!picked) return;
      text = picked.choice;
    }
    text ||= await vscode.window.showInputBox({ title, prompt: "Your answer to the agent" });
    if (text) await this.give(waiting.session, "answer", { call_id: waiting.callId, text });
  }

  /** All that waits, to choose from. */
  async showWaiting(): Promise<void> {
    const { waiting } = this.list;
    if (waiting.length === 0) {
      void vscode.window.showInformationMessage("Nothing waits for you.");
      return;
    }
    const items = waiting.map((each) => ({ label: waitingText(each), description: this.nameOf(each.session), waiting: each }));
    const picked = items.length === 1 ? items[0] : await vscode.window.showQuickPick(items, { title: "What waits for you" });
    if (!picked) return;
    await (picked.waiting.kind === "question" ? this.answer(picked.waiting) : this.review(picked.waiting));
  }

  /** Give an input, and wait for its effect. Throws if the session refuses it, such as an answer that came too late. */
  async give(session: string, type: "approve" | "deny" | "answer" | "message" | "cancel" | "end", fields: Record<string, unknown>): Promise<void> {
    const found = await this.connection.client.session(session);
    const given = await found.give(type, fields);
    const leaving = new AbortController();
    const timer = setTimeout(() => leaving.abort(), DECISION_TIMEOUT_MS);
    try {
      for await (const { event } of found.events(found.row.head?.seq ?? 0, leaving.signal)) {
        if (event.type !== "input.processed" || event.input !== given.seq) continue;
        if (event.refused) throw new Problem(409, "conflict", event.refused);
        break;
      }
    } catch (error) {
      if (!leaving.signal.aborted) throw error; // else it is stored, and takes effect later
    } finally {
      clearTimeout(timer);
      leaving.abort();
      await this.list.refresh();
    }
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? "This call was answered.\n";
  }

  /** False if it was answered elsewhere meanwhile: an editor cannot withdraw a notification. */
  private async isOpen({ session, callId }: Waiting): Promise<boolean> {
    await this.list.refresh();
    const isOpen = this.list.find(session)?.waiting.some((each) => each.callId === callId) ?? false;
    if (!isOpen) void vscode.window.showInformationMessage("This was answered already.");
    return isOpen;
  }

  private nameOf(session: string): string {
    const listed = this.list.find(session);
    return listed ? sessionName(listed.row) : session;
  }
}

// The status bar: how many sessions run, how many calls and questions wait, and whether the server answers.
import * as vscode from "vscode";
import type { Connection } from "./connection";
import { costText } from "./session_format";
import { type SessionList, isBusy } from "./session_list";

export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem("hutch.status", vscode.StatusBarAlignment.Left, 10);
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly connection: Connection, private readonly list: SessionList) {
    this.item.name = "Hutch";
    this.subscriptions = [connection.onDidChange(() => this.show()), list.onDidChange(() => this.show()), this.item];
    this.show();
    this.item.show();
  }

  dispose(): void {
    for (const each of this.subscriptions) each.dispose();
  }

  private show(): void {
    const { state, address } = this.connection;
    const waiting = this.list.waiting.length;
    const busy = this.list.sessions.filter((each) => isBusy(each.row));
    const running = busy.filter((each) => each.row.state !== "waiting").length;
    this.item.backgroundColor = waiting > 0 ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
    this.item.command = waiting > 0 ? "hutch.showWaiting" : state === "refused" ? "hutch.signIn" : "hutch.sessions.focus";
    if (state === "connected") {
      this.item.text = `$(shield) ${running} running${waiting > 0 ? ` $(bell-dot) ${waiting} waiting` : ""}`;
      const costs = busy.map(costText).filter(Boolean);
      this.item.tooltip = [`Hutch at ${address?.url ?? ""}`, costs.length > 0 ? `At work for ${costs.join(", ")}` : ""].filter(Boolean).join("\n");
      this.item.accessibilityInformation = { label: `Hutch: ${running} sessions running, ${waiting} waiting for you` };
      return;
    }
    const texts = { searching: "Hutch…", none: "Hutch: no server", unreachable: "Hutch: no answer", refused: "Hutch: sign in" };
    this.item.text = `$(${state === "searching" ? "shield" : "debug-disconnect"}) ${texts[state]}`;
    this.item.tooltip = address ? `Hutch at ${address.url}` : "No Hutch server was found on this machine";
    this.item.accessibilityInformation = { label: texts[state] };
  }
}

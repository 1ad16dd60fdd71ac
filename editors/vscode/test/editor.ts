// The extension, activated in an editor in memory, against the server that the environment of the test names.
import assert from "node:assert/strict";
import { createServer, connect as connectTo, type Server, type Socket } from "node:net";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { activate } from "../src/extension";
import type { Node } from "../src/session_tree";
import { Memory, Secrets, Uri, person, workspace } from "./memory_vscode";

const DEADLINE_MS = 120_000;
let isLate = false; // once something did not come in time, nothing is waited for

export const given = (name: string): string => {
  const value = process.env[name];
  assert.ok(value, `${name} is not set: run tests/editors/test_vscode_extension.py`);
  return value;
};

export const secrets = new Secrets();
const subscriptions: { dispose(): unknown }[] = [];

export async function start(): Promise<void> {
  const repository = given("HUTCH_TEST_REPOSITORY");
  workspace.workspaceFolders = [{ uri: Uri.file(repository), name: "project" }];
  await activate({ secrets, workspaceState: new Memory(), subscriptions } as never);
}

export function stop(): void {
  for (const each of subscriptions.splice(0)) each.dispose();
}

/** The first value that is there. */
export async function until<T>(what: string, look: () => T | Promise<T>): Promise<NonNullable<T>> {
  const endMs = Date.now() + DEADLINE_MS;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== null && found !== false) return found as NonNullable<T>;
    isLate ||= Date.now() > endMs;
    if (isLate) throw new Error(`Not in time: ${what}. Shown: ${JSON.stringify(person.shown.slice(-5))}`);
    await sleep(40);
  }
}

export type Seen = { node: Node; label: string; description: string; context: string; command?: { command: string; arguments: unknown[] } };

export async function seen(parent?: Node): Promise<Seen[]> {
  const { tree } = person;
  assert.ok(tree);
  return (await tree.getChildren(parent)).map((node) => {
    const item = tree.getTreeItem(node);
    return { node: node as Node, label: item.label, description: String(item["description"] ?? ""), context: String(item["contextValue"] ?? ""), command: item["command"] as never };
  });
}

export const rootOf = async (id: string): Promise<Seen | undefined> => (await seen()).find(({ node }) => node.kind === "session" && node.id === id);

/** A scripted model with these replies. */
export function model(name: string, replies: unknown[]): string {
  const path = join(given("HUTCH_TEST_MODELS"), `${name}.json`);
  writeFileSync(path, JSON.stringify({ replies }));
  return `scripted:${path}`;
}

/** A way to the server that can be cut. */
export class Gate {
  readonly sockets = new Set<Socket>();
  private readonly server: Server;
  constructor(target: URL) {
    this.server = createServer((socket) => {
      const onward = connectTo(Number(target.port), target.hostname);
      for (const each of [socket, onward]) {
        this.sockets.add(each);
        each.on("error", () => undefined);
        each.on("close", () => {
          this.sockets.delete(each);
          socket.destroy();
          onward.destroy();
        });
      }
      socket.pipe(onward).pipe(socket);
    });
  }
  open(port = 0): Promise<number> {
    return new Promise((resolve) => this.server.listen(port, "127.0.0.1", () => resolve((this.server.address() as { port: number }).port)));
  }
  cut(): void {
    for (const each of this.sockets) each.destroy();
  }
  close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.cut();
    return closed;
  }
}

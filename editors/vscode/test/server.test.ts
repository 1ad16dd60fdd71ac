// The extension as its user meets it, against a real server with real jails. Only the editor is in memory.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Hutch, type SessionRow } from "../../../clients/typescript/src/index";
import { findAddress } from "../src/server_address";
import type { SessionTerminal } from "../src/session_terminal";
import { Gate, given, model, rootOf, secrets, seen, start, stop, until } from "./editor";
import { Selection, TextDocument, Uri, type CodeLens, changeSetting, commandNames, commands, contentOf, person, window, workspace } from "./memory_vscode";

const bash = (command: string) => ({ calls: [{ tool: "bash", args: { command } }] });
const FINISH = { calls: [{ tool: "finish", args: { title: "Done", summary: "All is there." } }] };
const run = (command: string, ...args: unknown[]) => commands.executeCommand(command, ...args);
const errors = () => person.shown.filter((each) => each.kind === "error").map((each) => each.message);

let hutch: Hutch;
let url: URL;

/** A session that the extension starts, by its prompt. */
async function newSession(prompt: string, replies: unknown[], name: string, persona = "pair"): Promise<string> {
  changeSetting("hutch.model", model(name, replies));
  changeSetting("hutch.persona", persona);
  person.inputs.push(prompt);
  const before = new Set((await hutch.sessions()).map((each) => each.id));
  await run("hutch.newSession");
  assert.deepEqual(errors(), []);
  return (await until("a new session", async () => (await hutch.sessions()).find((each) => !before.has(each.id)))).id;
}

const stateOf = async (id: string): Promise<SessionRow["state"]> => (await hutch.session(id)).row.state;
const ended = (id: string) => until("the end of the run", async () => (await hutch.session(id)).row.last_run);
const waitingOf = async (id: string) => {
  const root = await rootOf(id);
  return root ? (await seen(root.node)).find((each) => each.context === "approval" || each.context === "question") : undefined;
};

before(async () => {
  mkdirSync(join(given("HUTCH_TEST_MODELS"), "nothing"), { recursive: true });
  person.settings.set("hutch.home", join(given("HUTCH_TEST_MODELS"), "nothing"));
  await start();
});
after(stop);

describe("the connection", () => {
  test("without a server the view offers to start one, and nothing fails", async () => {
    assert.equal(person.context.get("hutch.state"), "none");
    assert.deepEqual(await seen(), []);
    assert.match(String(person.statusBar?.["text"]), /no server/);
    await run("hutch.newSession");
    await run("hutch.showWaiting");
    await run("hutch.openTerminal");
    await run("hutch.startServer");
    assert.deepEqual(person.terminals.at(-1)?.sent, ["hutch up --detach"]);
    assert.ok(errors().every((each) => each.includes("No Hutch server")), errors().join());
    person.shown.length = 0;
  });

  test("the server of this machine is found by itself", async () => {
    changeSetting("hutch.home", given("HUTCH_TEST_HOME"));
    await until("a connection", () => person.context.get("hutch.state") === "connected");
    const address = await findAddress(given("HUTCH_TEST_HOME"), {});
    assert.ok(address);
    hutch = new Hutch(address.url, address.token);
    url = new URL(address.url);
    await until("an empty list", () => String(person.statusBar?.["text"]).includes("0 running"));
    assert.deepEqual(await seen(), []);
  });

  test("every command of the manifest is registered, and the other way round", () => {
    const manifest = JSON.parse(readFileSync(join(given("HUTCH_TEST_EXTENSION"), "package.json"), "utf8")) as { contributes: { commands: { command: string }[] } };
    assert.deepEqual(commandNames().sort(), manifest.contributes.commands.map((each) => each.command).sort());
  });
});

describe("a task of a TASKS.md", () => {
  const CHANGE = "echo '[Allow](command:workbench.action.quit)' > new.txt; rm old.txt; mv move.txt moved.txt; printf 'one\\ntwo!' > tail.txt";
  let id = "";
  let document: TextDocument;

  test("is started from the line above it, and the session is shown with its state and cost", async () => {
    changeSetting("hutch.model", `scripted:${join(given("HUTCH_TEST_MODELS"), "priced.json")}`);
    model("priced", [{ text: "I look.", ...bash(CHANGE) }, { calls: [{ tool: "edit_file", args: { path: "adding.py", edits: [{ old: "a - b", new: "a + b" }] } }] }, FINISH]);
    changeSetting("hutch.persona", "pair");
    const path = join(given("HUTCH_TEST_REPOSITORY"), "TASKS.md");
    document = new TextDocument(Uri.file(path), readFileSync(path, "utf8"), "markdown");
    workspace.textDocuments.push(document);
    const [lens, ...others] = person.lenses?.provideCodeLenses(document) ?? [];
    assert.ok(lens);
    assert.equal(others.length, 0);
    assert.deepEqual([lens.range.start.line, lens.command.title], [2, "$(play) Run with Hutch"]);
    await run(lens.command.command, ...lens.command.arguments);
    assert.deepEqual(errors(), []);
    const [root] = await until("the session in the tree", async () => {
      const roots = await seen();
      return roots.length > 0 ? roots : undefined;
    });
    assert.ok(root?.node.kind === "session");
    id = root.node.id;
    assert.ok(root.label.startsWith("T-1: Mend add"), root.label);
    const { row } = await hutch.session(id);
    assert.deepEqual([row.repository, row.persona, row.deliver], [given("HUTCH_TEST_REPOSITORY"), "pair", true]);
  });

  test("a call that waits is shown in tree, notification, badge and status bar, as text and not as a link", async () => {
    await until("a notification", () => person.shown.find((each) => each.items.includes("Approve")));
    const [shown] = person.shown.filter((each) => each.items.includes("Approve"));
    assert.ok(shown);
    assert.ok(shown.message.includes("rm old.txt"));
    assert.doesNotMatch(shown.message, /\]\(command:/);
    const waiting = await until("it in the tree", () => waitingOf(id));
    assert.doesNotMatch(waiting.label, /\]\(command:/);
    assert.equal(waiting.context, "approval");
    await until("the badge", () => person.view?.badge?.value === 1);
    await until("the status bar", () => String(person.statusBar?.["text"]).includes("1 waiting"));
    assert.equal(person.statusBar?.["command"], "hutch.showWaiting");
    await until("the cost", async () => (await rootOf(id))?.description.startsWith("waiting · $")); // it follows the log
  });

  test("approved, it goes on to its end, and the lens shows the outcome", async () => {
    const waiting = await waitingOf(id);
    person.answers.push(({ message, items }) => (message.includes("edit_file") && items.includes("Approve") ? "Approve" : undefined));
    await run("hutch.approve", waiting?.node); // and the next call from its notification
    assert.deepEqual(errors(), []);
    assert.equal((await ended(id)).outcome, "done");
    await until("outcome and cost, in the tree and above the task", async () => {
      const description = (await rootOf(id))?.description ?? "";
      const titles = (person.lenses?.provideCodeLenses(document) ?? []).map((lens: CodeLens) => lens.command.title);
      return /^done · \$\d+\.\d+$/.test(description) && titles.join() === [`$(shield) ${description}`, "Changes", "$(play) Run with Hutch"].join();
    });
    await until("no badge", () => person.view?.badge === undefined);
    await run("hutch.approve", waiting?.node); // too late
    assert.equal(errors().length, 1);
    person.shown.length = 0;
  });

  test("the change is shown in the editor's own diff, both sides exact", async () => {
    const root = await rootOf(id);
    const files = (await seen(root?.node)).filter((each) => each.context === "file");
    assert.deepEqual(files.map((each) => [each.label, each.description]), [
      ["adding.py", "+1 −1"],
      ["moved.txt", "renamed, +0 −0"],
      ["new.txt", "added, +1 −0"],
      ["old.txt", "deleted, +0 −2"],
      ["tail.txt", "+1 −1"],
    ]);
    const sides: Record<string, [string, string]> = {};
    for (const file of files) {
      await run(file.command?.command ?? "", ...(file.command?.arguments ?? []));
      const { command, given: [left, right] } = person.executed.at(-1) as { command: string; given: Uri[] };
      assert.equal(command, "vscode.diff");
      sides[file.label] = [await contentOf(left as Uri), await contentOf(right as Uri)];
    }
    assert.deepEqual(sides, {
      "adding.py": ["def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"],
      "moved.txt": ["to be moved\nwith three\nlines\n", "to be moved\nwith three\nlines\n"],
      "new.txt": ["", "[Allow](command:workbench.action.quit)\n"],
      "old.txt": ["of no\nuse\n", ""],
      "tail.txt": ["one\ntwo", "one\ntwo!"],
    });
    await run("hutch.showChanges", root?.node);
    const { command, given: [, resources] } = person.executed.at(-1) as { command: string; given: [string, Uri[][]] };
    assert.equal(command, "vscode.changes");
    const shown = await Promise.all(resources.map(async ([label, left, right]) => [label?.path, left && await contentOf(left), right && await contentOf(right)]));
    assert.deepEqual(shown, Object.entries(sides).map(([path, [left, right]]) => [`/${path}`, path === "new.txt" ? undefined : left, path === "old.txt" ? undefined : right]));
    await run("hutch.openInWebApp", root?.node);
    assert.equal(person.opened.at(-1), `${url.origin}/s/${id}`);
  });

  test("no session is started from a folder that is not trusted", async () => {
    workspace.isTrusted = false;
    person.inputs.push("Anything");
    await run("hutch.newSession");
    workspace.isTrusted = true;
    assert.match(errors().at(-1) ?? "", /not trusted this folder/);
    person.shown.length = 0;
  });
});

describe("decisions", () => {
  test("a call that a notification cannot show whole is approved only after all of it was shown", async () => {
    const id = await newSession("Go.", [bash(`echo start\n${"echo part\n".repeat(60)}touch last`), FINISH], "long");
    const shown = await until("a notification", () => person.shown.find((each) => each.kind === "warning"));
    assert.deepEqual(shown.items, ["Show", "Deny"]);
    person.answers.push(({ items }) => (items.includes("Approve Once") ? "Approve Once" : undefined));
    const waiting = await until("it in the tree", () => waitingOf(id));
    await run("hutch.review", waiting.node);
    assert.ok(person.documents.at(-1)?.getText().trimEnd().endsWith("touch last"));
    assert.equal((await ended(id)).outcome, "done");
    assert.deepEqual(errors(), []);
    person.shown.length = 0;
  });

  test("a denied call is not run, and the agent gets the reason", async () => {
    const id = await newSession("Remove it.", [bash("rm adding.py"), FINISH], "denied");
    const waiting = await until("it in the tree", () => waitingOf(id));
    person.inputs.push("Keep it.");
    await run("hutch.deny", waiting.node);
    assert.deepEqual(errors(), []);
    assert.equal((await ended(id)).outcome, "done");
    assert.ok((await (await hutch.session(id)).read("adding.py")).length > 0);
    const events = await hutch.json<{ items: { event: { allowed?: boolean } }[] }>("GET", `/sessions/${id}/events/search?kind=approval.answered`);
    assert.equal(events.items[0]?.event.allowed, false);
    const results = await hutch.json<{ items: unknown[] }>("GET", `/sessions/${id}/events/search?kind=tool.returned&text=${encodeURIComponent("Keep it.")}`);
    assert.equal(results.items.length, 1);
    person.shown.length = 0;
  });

  test("a notification that stays after its call was answered elsewhere does nothing more", async () => {
    let press = (): void => undefined;
    const pressed = new Promise<string>((resolve) => (press = () => resolve("Approve")));
    person.answers.push(({ items }) => (items.includes("Approve") ? pressed : undefined));
    const id = await newSession("Once.", [bash("echo once"), FINISH], "once");
    await run("hutch.approve", (await until("it in the tree", () => waitingOf(id))).node);
    assert.equal((await ended(id)).outcome, "done");
    press();
    await until("the answer", () => person.shown.find((each) => each.message === "This was answered already."));
    assert.deepEqual(errors(), []);
    person.shown.length = 0;
  });

  test("a question is answered by a choice", async () => {
    const id = await newSession("Ask.", [{ calls: [{ tool: "ask_user", args: { question: "Which one?", choices: ["left", "right"] } }] }, FINISH], "question");
    await until("the question", () => person.shown.find((each) => each.message.includes("Which one?")));
    person.picks.push((labels) => labels.indexOf("right"));
    await run("hutch.showWaiting");
    assert.deepEqual(errors(), []);
    assert.equal((await ended(id)).outcome, "done");
    const events = await hutch.json<{ items: { event: { text?: string } }[] }>("GET", `/sessions/${id}/events/search?kind=question.answered`);
    assert.equal(events.items[0]?.event.text, "right");
  });

  test("a selection is the prompt's subject, and a session can be stopped and ended", async () => {
    changeSetting("hutch.model", model("selection", [bash("echo never"), FINISH]));
    const path = join(given("HUTCH_TEST_REPOSITORY"), "adding.py");
    const document = new TextDocument(Uri.file(path), readFileSync(path, "utf8"), "python");
    window.activeTextEditor = { document, selection: new Selection(0, 0, 1, 16) };
    person.inputs.push("Mend it");
    const known = new Set((await hutch.sessions()).map((each) => each.id));
    await run("hutch.newSessionFromSelection");
    const session = await until("it", async () => (await hutch.sessions()).find((each) => !known.has(each.id)));
    const runs = await hutch.json<{ items: { prompt: string }[] }>("GET", `/sessions/${session.id}/runs`);
    assert.equal(runs.items[0]?.prompt, "Mend it\n\nThis is about adding.py:1-2, in my editor:\n\n```python\ndef add(a, b):\n    return a - b\n```");
    await until("that it waits", async () => (await stateOf(session.id)) === "waiting");
    const node = { kind: "session", id: session.id };
    await run("hutch.stop", node);
    assert.equal((await ended(session.id)).outcome, "cancelled");
    person.answers.push(({ items }) => (items.includes("End the Session") ? "End the Session" : undefined));
    await run("hutch.end", node);
    await until("its end", async () => (await stateOf(session.id)) === "ended");
    await until("that it is no longer listed", async () => !(await rootOf(session.id)));
    changeSetting("hutch.showEnded", true);
    await until("that it is listed", async () => (await rootOf(session.id))?.context === "session.ended");
    changeSetting("hutch.showEnded", false);
    assert.deepEqual(errors(), []);
  });
});

describe("over a way that breaks", () => {
  let gate: Gate;
  let port = 0;
  let token = { id: "", token: "" };

  before(async () => {
    gate = new Gate(url);
    port = await gate.open();
    token = await hutch.json("POST", "/tokens", { name: "editor", scopes: ["admin"], days: 1 });
  });
  after(() => gate.close());

  test("a wrong token is not stored, a right one is, and never in the settings", async () => {
    const settings = JSON.stringify([...person.settings]);
    person.inputs.push(`http://127.0.0.1:${port}`, "hut_wrong");
    await run("hutch.signIn");
    assert.match(errors().at(-1) ?? "", /does not accept this token/);
    assert.equal(secrets.stored.size, 0);
    person.inputs.push(`http://127.0.0.1:${port}`, token.token);
    await run("hutch.signIn");
    assert.equal(person.inputBoxes.at(-1)?.password, true);
    assert.equal(person.context.get("hutch.signedIn"), true);
    assert.ok([...secrets.stored.values()][0]?.includes(token.token));
    assert.equal(JSON.stringify([...person.settings]), settings);
    person.shown.length = 0;
  });

  test("a terminal shows output, takes input, and continues where the connection broke", async () => {
    changeSetting("hutch.persona", "");
    const id = await newSession("Just say hello.", [{ text: "Hello." }], "terminal");
    await ended(id);
    const node = await until("it in the tree", async () => (await rootOf(id))?.node);
    await run("hutch.openTerminal", node);
    const pty = person.terminals.at(-1)?.pty as SessionTerminal;
    let output = "";
    let exit: number | undefined;
    pty.onDidWrite((text) => (output += text));
    pty.onDidClose((code) => (exit = code));
    pty.open({ columns: 132, rows: 40 });
    await until("a prompt", () => output.includes("$ "));
    pty.handleInput("echo $((6*7)) $(tput cols 2>/dev/null || stty size | cut -d' ' -f2); printf '\\033]52;c;aGk=\\007ok\\n'\r");
    await until("its output", () => /42 132\r\n/.test(output) && /\nok\r\n/.test(output));
    assert.doesNotMatch(output.replaceAll("printf '\\033]52", ""), /\u001b\]52/);
    gate.cut();
    await until("the loss", () => output.includes("Connecting again"));
    await until("the connection", () => output.includes("[hutch] Connected."));
    pty.handleInput("echo again-$((1+1))\r");
    await until("more output", () => output.includes("again-2\r\n"));
    assert.equal(output.split("42 132\r\n").length, 2, "no output comes twice");
    pty.handleInput("exit 3\r");
    await until("the end", () => exit !== undefined);
    assert.equal(exit, 3);
    await run("hutch.openTerminal", node);
    const second = person.terminals.at(-1)?.pty as SessionTerminal;
    output = "";
    second.onDidWrite((text) => (output += text));
    second.open(undefined);
    await until("a prompt", () => output.includes("$ "));
    const open = async () => (await hutch.json<{ items: { ended: boolean }[] }>("GET", `/sessions/${id}/terminals`)).items.filter((each) => !each.ended).length;
    assert.equal(await open(), 1);
    second.close();
    await until("that its tab closes it", async () => (await open()) === 0);
    assert.deepEqual(errors(), []);
  });

  test("a server that is gone is shown, and found again", async () => {
    await gate.close();
    await until("that it is gone", () => person.context.get("hutch.state") === "unreachable");
    assert.match(String(person.statusBar?.["text"]), /no answer/);
    assert.deepEqual(await seen(), []);
    gate = new Gate(url);
    await gate.open(port);
    await until("that it is back", () => person.context.get("hutch.state") === "connected");
    await until("its sessions", async () => (await seen()).length > 0);
  });

  test("a revoked token is said to be refused, and signing out uses the server of this machine again", async () => {
    await hutch.send("DELETE", `/tokens/${token.id}`);
    await until("the refusal", async () => {
      await run("hutch.refresh");
      return person.context.get("hutch.state") === "refused";
    });
    assert.equal(person.statusBar?.["command"], "hutch.signIn");
    await run("hutch.signOut");
    await until("the local server", () => person.context.get("hutch.state") === "connected");
    assert.equal(secrets.stored.size, 0);
    assert.equal(person.context.get("hutch.signedIn"), false);
  });
});

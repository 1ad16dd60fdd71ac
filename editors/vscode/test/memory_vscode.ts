// The part of the `vscode` module that the extension uses, in memory. Tests answer its questions and read what it shows.
import { URI } from "vscode-uri";

type Listener<T> = (value: T) => unknown;
export interface Disposable { dispose(): unknown }

export class EventEmitter<T> {
  private readonly listeners = new Set<Listener<T>>();
  readonly event = (listener: Listener<T>): Disposable => {
    this.listeners.add(listener);
    return { dispose: () => this.listeners.delete(listener) };
  };
  fire(value: T): void {
    for (const each of [...this.listeners]) each(value);
  }
  dispose(): void {
    this.listeners.clear();
  }
}

export { URI as Uri };
export class Position {
  constructor(readonly line: number, readonly character: number) {}
}
export class Range {
  readonly start: Position;
  readonly end: Position;
  constructor(startLine: number, startCharacter: number, endLine: number, endCharacter: number) {
    this.start = new Position(startLine, startCharacter);
    this.end = new Position(endLine, endCharacter);
  }
}
export class Selection extends Range {
  get isEmpty(): boolean {
    return this.start.line === this.end.line && this.start.character === this.end.character;
  }
  get active(): Position {
    return this.end;
  }
}
export class CodeLens {
  constructor(readonly range: Range, readonly command: { title: string; command: string; arguments: unknown[] }) {}
}
export class ThemeColor {
  constructor(readonly id: string) {}
}
export class ThemeIcon {
  constructor(readonly id: string, readonly color?: ThemeColor) {}
}
export class TreeItem {
  constructor(readonly label: string, readonly collapsibleState = 0) {}
}
export const TreeItemCollapsibleState = { None: 0, Collapsed: 1, Expanded: 2 };
export const StatusBarAlignment = { Left: 1, Right: 2 };

/** A text document with the text that its provider gave. */
export class TextDocument {
  constructor(readonly uri: URI, private readonly text: string, readonly languageId = "plaintext") {}
  getText(range?: Range): string {
    if (!range) return this.text;
    const lines = this.text.split("\n").slice(range.start.line, range.end.line + 1);
    lines[lines.length - 1] = (lines.at(-1) ?? "").slice(0, range.end.character);
    lines[0] = (lines[0] ?? "").slice(range.start.character);
    return lines.join("\n");
  }
  lineAt(line: number): { range: Range } {
    return { range: new Range(line, 0, line, (this.text.split("\n")[line] ?? "").length) };
  }
}

export type Shown = { kind: "info" | "warning" | "error"; message: string; items: string[]; options: { modal?: boolean; detail?: string } };
type Answer = (shown: { message: string; items: readonly string[] }) => string | Promise<string> | undefined;
type Provider = { provideTextDocumentContent(uri: URI): string | Promise<string> };

/** The person at the editor, and what they see. */
export const person = {
  shown: [] as Shown[],
  answers: [] as Answer[], // of notifications, each once, by the first that gives one
  inputs: [] as string[], // for input boxes, in order
  inputBoxes: [] as { title?: string; prompt?: string; password?: boolean; validateInput?: (value: string) => string }[],
  picks: [] as ((labels: string[]) => number)[],
  executed: [] as { command: string; given: unknown[] }[],
  opened: [] as string[], // in the browser
  documents: [] as TextDocument[], // shown in an editor
  context: new Map<string, unknown>(),
  statusBar: null as null | Record<string, unknown>,
  terminals: [] as { name: string; pty?: unknown; sent: string[] }[],
  settings: new Map<string, unknown>(),
  tree: null as null | { getChildren(node?: unknown): Promise<unknown[]>; getTreeItem(node: unknown): TreeItem & Record<string, unknown>; getParent(node: unknown): unknown },
  view: null as null | { badge?: { value: number }; selection: unknown[]; revealed: unknown[] },
  lenses: null as null | { provideCodeLenses(document: TextDocument): CodeLens[] },
};

const notify = (kind: Shown["kind"]) => async (message: string, ...rest: unknown[]): Promise<string | undefined> => {
  const options = typeof rest[0] === "object" ? (rest.shift() as Shown["options"]) : {};
  const items = rest as string[];
  person.shown.push({ kind, message, items, options });
  for (const answer of person.answers) {
    const given = answer({ message, items });
    if (given === undefined) continue;
    person.answers.splice(person.answers.indexOf(answer), 1);
    const choice = await given;
    if (!items.includes(choice)) throw new Error(`There is no button “${choice}” in: ${items.join(", ")}`);
    return choice;
  }
  return undefined;
};

const registered = new Map<string, (...given: unknown[]) => unknown>();
const providers = new Map<string, Provider>();
const configuration = new EventEmitter<{ affectsConfiguration(name: string): boolean }>();

export const commandNames = (): string[] => [...registered.keys()];

export function changeSetting(name: string, value: unknown): void {
  person.settings.set(name, value);
  configuration.fire({ affectsConfiguration: (each) => name === each });
}

/** The text of a virtual document. */
export const contentOf = async (uri: URI): Promise<string> => providers.get(uri.scheme)?.provideTextDocumentContent(uri) ?? "";

export const commands = {
  registerCommand(name: string, action: (...given: unknown[]) => unknown): Disposable {
    registered.set(name, action);
    return { dispose: () => registered.delete(name) };
  },
  async executeCommand(command: string, ...given: unknown[]): Promise<unknown> {
    if (command === "setContext") person.context.set(String(given[0]), given[1]);
    else if (registered.has(command)) return registered.get(command)?.(...given);
    else person.executed.push({ command, given });
    return undefined;
  },
};

export const window = {
  activeTextEditor: undefined as undefined | { document: TextDocument; selection: Selection },
  showInformationMessage: notify("info"),
  showWarningMessage: notify("warning"),
  showErrorMessage: notify("error"),
  async showInputBox(options: (typeof person.inputBoxes)[number]): Promise<string | undefined> {
    person.inputBoxes.push(options);
    const typed = person.inputs.shift();
    const problem = typed === undefined ? "" : options.validateInput?.(typed);
    if (problem) throw new Error(`The input box refuses it: ${problem}`);
    return typed;
  },
  async showQuickPick<T extends { label: string }>(items: T[]): Promise<T | undefined> {
    const pick = person.picks.shift();
    return pick ? items[pick(items.map((each) => each.label))] : undefined;
  },
  async showTextDocument(document: TextDocument): Promise<void> {
    person.documents.push(document);
  },
  createTreeView(_id: string, { treeDataProvider }: { treeDataProvider: typeof person.tree }) {
    person.tree = treeDataProvider;
    const view = { selection: [] as unknown[], revealed: [] as unknown[], reveal: async (node: unknown) => void view.revealed.push(node), dispose: () => undefined };
    person.view = view;
    return view;
  },
  createStatusBarItem() {
    const item: Record<string, unknown> = { show: () => undefined, dispose: () => undefined };
    person.statusBar = item;
    return item;
  },
  createTerminal(options: string | { name: string; pty?: unknown }) {
    const terminal = { ...(typeof options === "string" ? { name: options } : options), sent: [] as string[] };
    person.terminals.push(terminal);
    return { show: () => undefined, sendText: (text: string) => terminal.sent.push(text) };
  },
};

export const workspace = {
  isTrusted: true,
  workspaceFolders: undefined as undefined | { uri: URI; name: string }[],
  textDocuments: [] as TextDocument[],
  getConfiguration: (section: string) => ({ get: <T>(name: string, usual: T): T => (person.settings.get(`${section}.${name}`) as T | undefined) ?? usual }),
  getWorkspaceFolder: (uri: URI) => workspace.workspaceFolders?.find((each) => uri.path.startsWith(each.uri.path)),
  asRelativePath(uri: URI): string {
    const folder = workspace.getWorkspaceFolder(uri);
    return folder ? uri.path.slice(folder.uri.path.length + 1) : uri.path;
  },
  onDidChangeConfiguration: configuration.event,
  registerTextDocumentContentProvider(scheme: string, provider: Provider): Disposable {
    providers.set(scheme, provider);
    return { dispose: () => providers.delete(scheme) };
  },
  async openTextDocument(uri: URI): Promise<TextDocument> {
    const open = workspace.textDocuments.find((each) => each.uri.toString() === uri.toString());
    return open ?? new TextDocument(uri, await contentOf(uri));
  },
};

export const languages = {
  registerCodeLensProvider(_selector: unknown, provider: NonNullable<typeof person.lenses>): Disposable {
    person.lenses = provider;
    return { dispose: () => undefined };
  },
};

export const env = {
  async openExternal(uri: URI): Promise<boolean> {
    person.opened.push(uri.toString(true));
    return true;
  },
};

export const extensions = {
  remotes: null as null | { name: string; fetchUrl?: string }[], // of every repository, if the editor's git is there
  getExtension: () => (extensions.remotes ? { activate: async () => ({ getAPI: () => ({ getRepository: () => ({ state: { remotes: extensions.remotes } }) }) }) } : undefined),
};

export class Secrets {
  readonly stored = new Map<string, string>();
  private readonly changed = new EventEmitter<{ key: string }>();
  readonly onDidChange = this.changed.event;
  get = async (key: string): Promise<string | undefined> => this.stored.get(key);
  async store(key: string, value: string): Promise<void> {
    this.stored.set(key, value);
    this.changed.fire({ key });
  }
  async delete(key: string): Promise<void> {
    this.stored.delete(key);
    this.changed.fire({ key });
  }
}

export class Memory {
  private readonly values = new Map<string, unknown>();
  get = <T>(key: string, usual: T): T => (this.values.get(key) as T | undefined) ?? usual;
  update = async (key: string, value: unknown): Promise<void> => void this.values.set(key, value);
}

// Open files: the shared document of each, and the state of its editor while its tab is hidden. Files that the server
// does not share are read over REST.
import { defaultKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput } from "@codemirror/language";
import { search, searchKeymap, highlightSelectionMatches } from "@codemirror/search";
import { Annotation, Compartment, EditorState, type TransactionSpec } from "@codemirror/state";
import { EditorView, type ViewUpdate, drawSelection, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import * as Y from "yjs";
import { Problem } from "../../../api/http_client";
import type { CursorFrame, DocumentChannel } from "../../../api/document_socket";
import { nonce } from "../../../style_nonce";
import { strings } from "../../../strings";
import { editorHighlight, editorTheme } from "./editor_theme";
import { FileKeeper, takeOver } from "./unsaved_text_storage";
import { languageOf } from "./editor_languages";
import { type AgentEdit, type Ghost, ghostsOf } from "./streamed_edit_parser";
import { breakpointGutter } from "./breakpoint_gutter";
import { agentPreview, clearLanded, hasLanded, markLanded, setGhosts } from "./agent_edit_decorations";
import { type OtherCursor, otherCursors, setCursors } from "./other_cursors";
import { type Change, SharedFile, type Shown } from "./synced_file_document";
import { findReplacements } from "./text_difference";
import { type Part, type WholeText, readFile, readPage } from "./unshared_file_reading";

const CURSOR_MS = 100;
const PLAIN_BYTES = 1024 * 1024;
const PLAIN_LINE_CHARS = 10_000;
const fromShared = Annotation.define<boolean>();

export type Status = "loading" | "clean" | "typing" | "kept" | "binary" | "large" | "failed";

export class Document implements Shown {
  error: unknown = null;
  isPlain = false;
  state: EditorState | null = null;
  view: EditorView | null = null;
  readonly file: SharedFile;
  private shown: Status | null = null; // of a file that is only read
  part: Part | null = null; // of a file that is too large or no text
  private etag = "";
  private language = new Compartment();
  private editable = new Compartment();
  private canType = false;
  private cursors = new Map<number, CursorFrame>();
  private cursorTimer: ReturnType<typeof setTimeout> | undefined;
  private isDrawing = false;
  private readonly key: string;
  private readonly keeper: FileKeeper;

  constructor(readonly session: string, readonly path: string, user: string, readonly canWrite: boolean, channel: DocumentChannel, private readonly notify: () => void) {
    this.key = `${user}/${session}/${path}`; // nobody else sends what this person has typed
    this.keeper = new FileKeeper(this.key, (error) => this.fail(error));
    this.file = new SharedFile(path, channel, this, this.keeper);
    if (canWrite) void this.start();
    else void this.read();
  }

  get status(): Status {
    if (this.shown) return this.shown;
    if (this.file.waits && (!this.file.isLive || this.file.problem)) return "kept";
    if (!this.state) return "loading";
    return this.file.isUnsaved || this.file.waits ? (this.file.problem ? "kept" : "typing") : "clean";
  }

  /** Why nothing can be typed. Empty if the file can be changed. */
  get readOnlyReason(): string {
    return this.canWrite ? this.file.readOnly : strings.panel.noDocuments;
  }

  /** The reason why the file is read-only, or the problem with its saves. Empty if there is none. */
  get remark(): string {
    if (this.readOnlyReason) return this.readOnlyReason;
    if (this.file.problem) return this.file.problem;
    return this.file.isDeleted ? strings.panel.deleted : "";
  }

  get text(): string {
    return (this.view?.state ?? this.state)?.doc.toString() ?? "";
  }

  save(): void {
    this.file.save();
  }

  private async start(): Promise<void> {
    try {
      const unsaved = await takeOver(this.key, () => this.takeOverAgain());
      this.keeper.replaces(unsaved);
      this.file.start(unsaved);
    } catch (error) { // a browser without a database: typing works, but nothing outlives the page
      this.fail(error);
      this.file.start([]);
    }
  }

  /** A page that had this file open may be gone by now. Its stored text is merged like that of another user. */
  private takeOverAgain(): void {
    takeOver(this.key, () => this.takeOverAgain()).then((kept) => {
      this.keeper.replaces(kept);
      this.file.adopt(kept);
    }).catch((error: unknown) => this.fail(error));
  }

  fail(error: unknown): void {
    this.error = error;
    this.notify();
  }

  // --- messages of the shared file ---

  replaced(text: string): void {
    if (!this.state) {
      this.isPlain = this.part !== null || text.length > PLAIN_BYTES || text.split("\n").some((line) => line.length > PLAIN_LINE_CHARS);
      this.state = this.makeState(text);
      if (!this.isPlain) void languageOf(this.path).then((language) => this.apply({ effects: this.language.reconfigure(language) }));
    } else this.apply({ changes: findReplacements(this.text, text), annotations: fromShared.of(true) });
    this.renewed();
  }

  changed(changes: Change[], isUndo: boolean): void {
    const last = changes.at(-1);
    if (!last) return;
    const isAgents = this.agentEdits.length > 0 && !isUndo;
    this.apply({ changes, annotations: fromShared.of(true), ...(isAgents ? { effects: markLanded.of(insertedRanges(changes)) } : {}) });
    if (isAgents) {
      this.drawGhosts();
      this.notify();
    }
    if (!isUndo || !this.view) return this.drawCursors();
    const shift = changes.slice(0, -1).reduce((sum, each) => sum + each.insert.length - (each.to - each.from), 0);
    this.apply({ selection: { anchor: last.from + shift + last.insert.length }, scrollIntoView: true });
  }

  // --- edits of the agent ---

  private agentEdits: AgentEdit[] = [];
  private agentName = "";
  private hasGhosts = false;
  ghosts: Ghost[] = [];

  /** Preview the edits of calls, also of those that the model still writes. */
  showAgent(edits: AgentEdit[], name: string): void {
    if (!edits.length && !this.agentEdits.length) return;
    [this.agentEdits, this.agentName] = [edits, name];
    this.drawGhosts();
  }

  private drawGhosts(): void {
    if (!this.state && !this.view) return;
    const text = this.text;
    this.ghosts = this.agentEdits.flatMap((edit) => ghostsOf(edit, text));
    if (!this.ghosts.length && !this.hasGhosts) return;
    this.hasGhosts = this.ghosts.length > 0;
    this.apply({ effects: setGhosts.of({ ghosts: this.ghosts, name: this.agentName }) });
  }

  /** Marks the agent's text as seen, because the user works in the file. */
  seen(): void {
    if (!this.isUnseen) return;
    this.apply({ effects: clearLanded.of(null) });
    this.notify();
  }

  get isUnseen(): boolean {
    return this.view !== null && hasLanded(this.view);
  }

  moved(cursor: CursorFrame): void {
    if (cursor.position === null) this.cursors.delete(cursor.peer);
    else this.cursors.set(cursor.peer, cursor);
    this.drawCursors();
  }

  renewed(): void {
    const canType = !this.readOnlyReason && this.file.isLoaded;
    if (canType !== this.canType) {
      this.canType = canType;
      this.apply({ effects: this.editable.reconfigure(EditorState.readOnly.of(!canType)) });
    }
    if (this.file.isLoaded) this.shown = null;
    if (this.file.isRefused && !this.state && !this.shown) void this.read();
    if (!this.file.isLive && this.cursors.size) {
      this.cursors.clear();
      this.drawCursors();
    }
    const state = [this.status, this.remark, this.file.savedAtMs, this.file.isLoaded, this.state === null].join("\n");
    if (state !== this.notifiedState) this.notify();
    this.notifiedState = state;
  }

  private notifiedState = "";

  private drawCursors(): void {
    if (this.isDrawing) return;
    this.isDrawing = true;
    queueMicrotask(() => { // after the change that the positions belong to
      this.isDrawing = false;
      const found = [...this.cursors.values()].flatMap((each): OtherCursor[] => {
        const anchor = this.offsetOf(each.position, "anchor");
        const head = this.offsetOf(each.position, "head");
        return anchor === null || head === null ? [] : [{ peer: each.peer, user: each.user, name: each.name, anchor, head }];
      });
      this.apply({ effects: setCursors.of(found) });
    });
  }

  /** Positions come from other clients: anything that is not one is ignored. */
  private offsetOf(position: unknown, name: string): number | null {
    try {
      const relative = Y.createRelativePositionFromJSON((position as Record<string, unknown>)[name]);
      const absolute = Y.createAbsolutePositionFromRelativePosition(relative, this.file.doc);
      return absolute?.type === this.file.text ? absolute.index : null;
    } catch {
      return null;
    }
  }

  // --- actions of the user ---

  private onUpdate(update: ViewUpdate): void {
    for (const transaction of update.transactions) {
      if (!transaction.docChanged || transaction.annotation(fromShared)) continue;
      const changes: Change[] = [];
      transaction.changes.iterChanges((from, to, _from, _to, inserted) => changes.push({ from, to, insert: inserted.toString() }));
      this.file.edit(changes);
    }
    if (update.selectionSet || update.focusChanged || update.docChanged) this.placeSoon();
  }

  placeSoon(): void {
    this.cursorTimer ??= setTimeout(() => {
      this.cursorTimer = undefined;
      if (!this.view?.hasFocus) return this.file.place(null);
      const { anchor, head } = this.view.state.selection.main;
      const at = (offset: number) => Y.relativePositionToJSON(Y.createRelativePositionFromTypeIndex(this.file.text, offset)) as unknown;
      this.file.place({ anchor: at(anchor), head: at(head) });
    }, CURSOR_MS);
  }

  private apply(spec: TransactionSpec): void {
    if (this.view) this.view.dispatch(spec);
    else if (this.state) this.state = this.state.update(spec).state;
  }

  private makeState(text: string): EditorState {
    const undo = () => { this.file.undo.undo(); return true; };
    const redo = () => { this.file.undo.redo(); return true; };
    return EditorState.create({
      doc: text,
      extensions: [
        breakpointGutter, lineNumbers(), highlightActiveLineGutter(), highlightSpecialChars(), foldGutter(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(), highlightSelectionMatches(), search({ top: true }),
        EditorState.allowMultipleSelections.of(true),
        EditorState.lineSeparator.of("\n"), // as in the document, so that offsets agree
        EditorView.clipboardInputFilter.of((pasted) => pasted.replace(/\r\n?/g, "\n")),
        keymap.of([
          { key: "Mod-s", run: () => { this.save(); return true; }, preventDefault: true },
          { key: "Mod-z", run: undo, preventDefault: true },
          { key: "Mod-y", mac: "Mod-Shift-z", run: redo, preventDefault: true },
          { key: "Mod-Shift-z", run: redo, preventDefault: true },
          ...defaultKeymap, ...searchKeymap, ...foldKeymap, indentWithTab,
        ]),
        EditorView.domEventHandlers({
          mousedown: () => this.seen(),
          blur: () => { if (this.file.isUnsaved) this.save(); return false; }, // a program that is started next reads it
          beforeinput: (event) => (event.inputType === "historyUndo" ? undo() : event.inputType === "historyRedo" ? redo() : false),
        }),
        EditorView.cspNonce.of(nonce), editorTheme, editorHighlight, otherCursors, agentPreview,
        this.language.of([]),
        this.editable.of([EditorState.readOnly.of(!this.canType)]),
        EditorView.contentAttributes.of({ tabindex: "0", "aria-label": `${this.path}. ${strings.editor.leave}` }),
        EditorView.updateListener.of((update) => this.onUpdate(update)),
      ],
    });
  }

  // --- files that are only read ---

  private async read(): Promise<void> {
    this.shown ??= "loading";
    try {
      this.take(await readFile(this.session, this.path));
    } catch (error) {
      this.shown = "failed";
      this.fail(error);
    }
  }

  private take(found: WholeText | Part): void {
    this.etag = found.etag;
    this.part = found.kind === "text" ? null : found;
    this.shown = found.kind === "text" ? "clean" : found.kind;
    this.replaced(found.text);
    this.notify();
  }

  /** Show another page of a file that is too large to be read whole. */
  async showPage(start: number): Promise<void> {
    try {
      this.take(await readPage(this.session, this.path, start));
      this.view?.dispatch({ effects: EditorView.scrollIntoView(0) });
    } catch (error) {
      this.fail(error);
    }
  }

  /** The log says that the file has changed. A shared document knows already. */
  async renew(): Promise<void> {
    if (this.shown !== "clean" && !this.part) return;
    try {
      const found = this.part ? await readPage(this.session, this.path, this.part.start) : await readFile(this.session, this.path);
      if (found.etag !== this.etag) this.take(found);
    } catch (error) {
      if (error instanceof Problem && error.status === 404) this.fail(error);
    }
  }

  close(): void {
    clearTimeout(this.cursorTimer);
    this.file.close(() => this.keeper.close());
    this.view?.destroy();
    this.view = null;
  }
}

/** The ranges of the inserted texts after all of these changes. */
function insertedRanges(changes: readonly Change[]): { from: number; to: number }[] {
  let shift = 0;
  return changes.map(({ from, to, insert }) => {
    const start = from + shift;
    shift += insert.length - (to - from);
    return { from: start, to: start + insert.length };
  });
}

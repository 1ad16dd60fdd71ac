// Two clients and a server that keeps the document, with the frames of docs/streams.md and without a network.
import { describe, expect, it } from "vitest";
import * as Y from "yjs";
import type { DocumentChannel, OpenFile } from "../../../api/document_socket";
import type { UnsavedFile } from "./unsaved_text_storage";
import { SharedFile, plainText } from "./synced_file_document";

class Server {
  doc = new Y.Doc();
  clients = new Map<number, OpenFile>();
  refuses = false;

  constructor(public epoch: string, text: string) {
    this.doc.getText("content").insert(0, text);
  }

  get text(): string {
    return plainText(this.doc.getText("content"));
  }

  open(number: number, file: OpenFile): void {
    this.clients.set(number, file);
    const { epoch, state } = file.known();
    file.opened({ epoch: this.epoch, state: "", writes: true, reason: "" });
    file.updated(Y.encodeStateAsUpdate(this.doc, epoch === this.epoch ? Uint8Array.from(atob(state), (char) => char.charCodeAt(0)) : undefined));
  }
}

class Client {
  server: Server | null = null;
  shown = "";
  kept: UnsavedFile | null = null;
  confirms = true;
  private number = 0;
  private unconfirmed: (() => void)[] = [];
  file: SharedFile;

  constructor(kept: UnsavedFile[] = []) {
    const channel = {
      attach: (file: OpenFile) => { this.number += 1; this.server?.open(this.number, file); return this.number; },
      detach: () => undefined,
      put: () => this.server !== null,
      notify: () => undefined,
      retryNow: () => undefined,
      sendUpdate: (number: number, update: Uint8Array) => this.send(number, update),
      confirm: (then: () => void) => {
        if (!this.server) return false;
        if (this.confirms) then();
        else this.unconfirmed.push(then);
        return true;
      },
    } as unknown as DocumentChannel;
    this.file = new SharedFile("a.txt", channel, {
      replaced: (text) => { this.shown = text; },
      changed: (changes) => {
        for (const { from, to, insert } of changes.toReversed()) this.shown = this.shown.slice(0, from) + insert + this.shown.slice(to);
      },
      moved: () => undefined,
      renewed: () => undefined,
    }, { keep: (make) => { this.kept = make(); }, forget: () => { this.kept = null; } });
    this.file.start(kept);
  }

  private send(number: number, update: Uint8Array): boolean {
    if (!this.server) return false;
    if (this.server.refuses) {
      this.file.refused("denied", "You may only watch.");
      return true;
    }
    Y.applyUpdate(this.server.doc, update);
    for (const [other, file] of this.server.clients) if (file !== this.file || other !== number) file.updated(update);
    return true;
  }

  connect(server: Server): void {
    this.server = server;
    this.confirms = true;
    server.open(Math.random(), this.file);
  }

  cut(): void {
    for (const [number, file] of this.server?.clients ?? []) if (file === this.file) this.server?.clients.delete(number);
    this.server = null;
    this.unconfirmed = [];
    this.file.lost();
  }

  type(at: number, insert: string): void {
    this.shown = this.shown.slice(0, at) + insert + this.shown.slice(at);
    this.file.edit([{ from: at, to: at, insert }]);
  }
}

describe("a shared file", () => {
  it("shows both people's typing, and confirmed text is not kept in the browser", () => {
    const server = new Server("e1", "one\n");
    const [ada, bo] = [new Client(), new Client()];
    ada.connect(server);
    bo.connect(server);
    ada.type(0, "A ");
    bo.type(bo.shown.length, "B\n");
    expect([ada.shown, bo.shown, server.text]).toEqual(Array(3).fill("A one\nB\n"));
    expect([ada.kept, ada.file.waits]).toEqual([null, false]);
  });

  it("takes back only one's own text", () => {
    const server = new Server("e1", "one\n");
    const [ada, bo] = [new Client(), new Client()];
    ada.connect(server);
    bo.connect(server);
    ada.type(0, "mine ");
    bo.type(0, "theirs ");
    ada.file.undo.undo();
    expect([ada.shown, server.text]).toEqual(["theirs one\n", "theirs one\n"]);
    ada.file.undo.undo();
    expect(server.text).toBe("theirs one\n");
    ada.file.undo.redo();
    expect(server.text).toContain("mine ");
  });

  it("merges what was typed without a connection, without doubling what arrived unconfirmed", () => {
    const server = new Server("e1", "one\n");
    const ada = new Client();
    ada.connect(server);
    ada.confirms = false;
    ada.type(0, "arrived ");
    ada.cut();
    ada.type(0, "offline ");
    expect(ada.kept?.text).toBe("offline arrived one\n");
    server.doc.getText("content").insert(server.text.length, "disk\n");
    ada.connect(server);
    expect([ada.shown, server.text, ada.kept]).toEqual(["offline arrived one\ndisk\n", "offline arrived one\ndisk\n", null]);
  });

  it("restores what an earlier page could not send", () => {
    const server = new Server("e1", "one\n");
    const ada = new Client();
    ada.connect(server);
    ada.cut();
    ada.type(3, " offline");
    const reloaded = new Client(ada.kept ? [ada.kept] : []);
    expect(reloaded.shown).toBe("one offline\n");
    reloaded.connect(server);
    expect([reloaded.shown, server.text, reloaded.kept]).toEqual(["one offline\n", "one offline\n", null]);
  });

  it("applies its own changes to a document of another epoch, and merges nothing else into it", () => {
    const ada = new Client();
    ada.connect(new Server("e1", "one\ntwo\n"));
    ada.cut();
    ada.type(3, " mine");
    const server = new Server("e2", "zero\none\ntwo\n");
    ada.connect(server);
    expect([ada.shown, server.text]).toEqual(["zero\none mine\ntwo\n", "zero\none mine\ntwo\n"]);
    expect(ada.kept).toBeNull();
  });

  it("shows the text of another epoch once if nothing was typed", () => {
    const ada = new Client();
    ada.connect(new Server("e1", "one\n"));
    ada.cut();
    const server = new Server("e2", "one\n");
    ada.connect(server);
    expect([ada.shown, server.text]).toEqual(["one\n", "one\n"]);
  });

  it("applies an earlier page's changes to a document of another epoch", () => {
    const ada = new Client();
    ada.connect(new Server("e1", "one\n"));
    ada.cut();
    ada.type(0, "mine ");
    const reloaded = new Client(ada.kept ? [ada.kept] : []);
    const server = new Server("e2", "one\nmore\n");
    reloaded.connect(server);
    expect([reloaded.shown, server.text]).toEqual(["mine one\nmore\n", "mine one\nmore\n"]);
  });

  it("keeps what the server refuses", () => {
    const server = new Server("e1", "one\n");
    const ada = new Client();
    ada.connect(server);
    server.refuses = true;
    ada.type(0, "mine ");
    expect([ada.file.waits, ada.file.problem, ada.kept?.text, server.text]).toEqual([true, "You may only watch.", "mine one\n", "one\n"]);
    server.refuses = false;
    ada.cut();
    ada.connect(server);
    expect([server.text, ada.kept]).toEqual(["mine one\n", null]);
  });

  it("sends a large paste in parts", () => {
    const server = new Server("e1", "");
    const ada = new Client();
    ada.connect(server);
    const sizes: number[] = [];
    ada.file.doc.on("update", (update: Uint8Array) => sizes.push(update.length));
    ada.type(0, "x😀".repeat(500_000));
    expect(server.text).toBe("x😀".repeat(500_000));
    expect(Math.max(...sizes)).toBeLessThan(1 << 20);
  });
});

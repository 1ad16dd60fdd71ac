// Text that was typed and that the server has not confirmed, in IndexedDB. A page keeps one record for a file and
// deletes it when the server has everything. Another page takes a record over once its page is gone.
const NAME = "hutch-files";
const STORE = "kept";
const DELAY_MS = 200; // while the server is there: it has the text sooner
const MAX_CHARS_AT_ONCE = 200_000; // a copy of a longer text would be felt at each key
const BEAT_MS = 2000;
const STALE_MS = 6000;

export type UnsavedFile = { epoch: string; base: string; text: string; updates: Uint8Array[] };
export type UnsavedRecord = UnsavedFile & { file: string; page: string; aliveMs: number };

const page = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
let opening: Promise<IDBDatabase> | undefined;

function database(): Promise<IDBDatabase> {
  opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: ["file", "page"] });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error(`The database ${NAME} cannot be opened.`));
  });
  return opening;
}

/** Unsaved text of a file from closed pages. `again` is called later if a page may still be alive. */
export async function takeOver(file: string, again: () => void): Promise<UnsavedRecord[]> {
  const store = (await database()).transaction(STORE, "readwrite").objectStore(STORE);
  return new Promise((resolve, reject) => {
    const request = store.getAll(IDBKeyRange.bound([file], [file, []])) as IDBRequest<UnsavedRecord[]>;
    request.onerror = () => reject(request.error ?? new Error("Unsaved text cannot be read."));
    request.onsuccess = () => {
      const others = request.result.filter((each) => each.page !== page);
      const left = others.filter((each) => Date.now() - each.aliveMs > STALE_MS);
      for (const each of left) store.put({ ...each, aliveMs: Date.now() }); // so that no other page takes it too
      if (left.length < others.length) setTimeout(again, STALE_MS);
      resolve(left);
    };
  });
}

/** The record of this page for one file. */
export class FileKeeper {
  private make: (() => UnsavedFile) | null = null;
  private isDirty = false; // since the last write began
  private writes = 0; // that have not ended
  private chars = 0; // of the last record
  private timer: ReturnType<typeof setInterval> | undefined;
  private writtenMs = 0;
  private stored: string[] = []; // pages whose records are to be deleted with this one's

  constructor(private readonly file: string, private readonly failed: (error: unknown) => void) {
    window.addEventListener("pagehide", this.leave);
  }

  replaces(records: UnsavedRecord[]): void {
    this.stored.push(...records.map((each) => each.page));
  }

  /** Write the record. `atOnce` is for text that only this page has: a browser may be killed after any key. */
  keep(make: () => UnsavedFile, atOnce: boolean): void {
    this.make = make;
    this.isDirty = true;
    if (atOnce && this.chars <= MAX_CHARS_AT_ONCE) this.write(Date.now()); // beside writes before it: they keep their order
    this.timer ??= setInterval(() => {
      if (!this.writes && (this.isDirty || Date.now() - this.writtenMs > BEAT_MS)) this.write(Date.now());
    }, DELAY_MS);
  }

  forget(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.make = null;
    const pages = this.stored.splice(0);
    if (pages.length) this.change((store) => { for (const each of pages) store.delete([this.file, each]); });
  }

  /** Close the file. The stored text waits for the next page that opens it. */
  close(): void {
    this.leave();
    clearInterval(this.timer);
    this.make = null;
    window.removeEventListener("pagehide", this.leave);
  }

  private leave = (): void => {
    if (this.make) this.write(0);
  };

  private write(aliveMs: number): void {
    if (!this.make) return;
    const record: UnsavedRecord = { ...this.make(), file: this.file, page, aliveMs };
    this.chars = record.text.length;
    this.isDirty = false;
    this.writes += 1;
    this.writtenMs = Date.now();
    const replaced = this.stored.filter((each) => each !== page);
    this.stored = [page];
    this.change((store) => {
      store.put(record);
      for (const each of replaced) store.delete([this.file, each]);
    }, () => { this.writes -= 1; });
  }

  private change(work: (store: IDBObjectStore) => void, done: () => void = () => undefined): void {
    database().then((opened) => {
      // Relaxed: the browser's database process has it, which outlives the page; it does not wait for the disk.
      const transaction = opened.transaction(STORE, "readwrite", { durability: "relaxed" });
      transaction.oncomplete = done;
      transaction.onabort = () => {
        this.failed(transaction.error);
        done();
      };
      work(transaction.objectStore(STORE));
      transaction.commit(); // it does not wait for this page to see the result
    }).catch((error: unknown) => {
      this.failed(error);
      done();
    });
  }
}

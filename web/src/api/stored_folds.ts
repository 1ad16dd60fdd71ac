// Folds of long sessions, in IndexedDB: a page that opens a session again folds only new events. A fold is stored with
// the hash of its last event, and with the number of events that were erased: after an erasure it is not used again.
import type { SavedFold } from "../fold/fold";

const NAME = "hutch-views";
const STORE = "views";
const MAX_VIEWS = 20;

export type StoredView = { key: string; seq: number; hash: string; erased: number; atMs: number; fold: SavedFold };

let opening: Promise<IDBDatabase> | undefined;

function database(): Promise<IDBDatabase> {
  opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "key" }).createIndex("atMs", "atMs");
    request.onsuccess = () => {
      request.result.onversionchange = () => { // it is deleted at logout, also by another tab
        request.result.close();
        opening = undefined;
      };
      resolve(request.result);
    };
    request.onerror = () => reject(request.error ?? new Error(`The database ${NAME} cannot be opened.`));
  });
  return opening;
}

/** The stored view; undefined if there is none, or no database: then the log is read. */
export async function readView(key: string): Promise<StoredView | undefined> {
  try {
    const store = (await database()).transaction(STORE).objectStore(STORE);
    return await new Promise((resolve, reject) => {
      const request = store.get(key) as IDBRequest<StoredView | undefined>;
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error ?? new Error("A stored view cannot be read."));
    });
  } catch {
    return undefined;
  }
}

/** Store a view. `make` is called when the database is open, and its result is cloned at once. */
export async function storeView(make: () => StoredView): Promise<void> {
  try {
    const transaction = (await database()).transaction(STORE, "readwrite", { durability: "relaxed" });
    const store = transaction.objectStore(STORE);
    store.put(make());
    const count = store.count();
    count.onsuccess = () => {
      let surplus = count.result - MAX_VIEWS;
      const oldest = store.index("atMs").openCursor();
      oldest.onsuccess = () => {
        if (!oldest.result || surplus <= 0) return;
        surplus -= 1;
        oldest.result.delete();
        oldest.result.continue();
      };
    };
    await new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error ?? new Error("A view cannot be stored."));
    });
  } catch (error) {
    console.warn("The view is not stored in this browser; the session will be read again.", error);
  }
}

export async function dropView(key: string): Promise<void> {
  try {
    (await database()).transaction(STORE, "readwrite").objectStore(STORE).delete(key);
  } catch (error) {
    console.warn("A stored view cannot be deleted.", error);
  }
}

/** Delete all of them when a user logs out. */
export function deleteViews(): void {
  indexedDB.deleteDatabase(NAME);
}

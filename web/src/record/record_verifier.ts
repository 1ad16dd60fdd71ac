// Verifies a record in the browser, as `hutch verify` does, in the order of docs/record.md. Nothing is sent anywhere.
//
// The primitives are those of a small audited library and not of WebCrypto, which browsers offer on https only.
import { hashes, verify as isSigned } from "@noble/ed25519";
import { sha256, sha512 } from "@noble/hashes/sha2.js";
import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";
import type { AnyEntry } from "../fold/view_types";
import { type Archive, openArchive } from "./record_zip";
import { InvalidRecord, canonical, checkPayload, expectNames, parseLine } from "./canonical_json";

hashes.sha512 = sha512;

const README = `This is the record of one Hutch session: everything that happened in it, in order.
Each event is chained to the one before by SHA-256, and the chain is signed with Ed25519.
To check it offline: hutch verify FILE --key FINGERPRINT [--receipt RECEIPT]
Get the fingerprint, and a receipt if there is one, from somebody you trust and not from this file.
The format is specified in docs/record.md of Hutch, so that anybody can write a verifier.
`;
const EVENT = ["at_ms", "hash", "payload", "payload_hash", "salt", "seq", "type"];
const STATEMENT = ["at_ms", "hash", "key", "kind", "reason", "seq", "session", "signature"];
const KINDS = ["checkpoint", "end", "receipt", "erasure"];
const MAX_MS = 253_402_300_799_999;
const SESSION = /^ses_[0-7][0-9a-hjkmnp-tv-z]{25}$/;
const TYPE = /^[a-z][a-z0-9_.]{0,99}$/;

export type Statement = { at_ms: number; hash: string; key: string; kind: string; reason: string; seq: number; session: string; signature: string };
export type Report = {
  ok: boolean;
  session: string;
  events: number;
  erased: number;
  gaps: number;
  ended: boolean;
  keys: string[];
  pinned: boolean;
  firstBad: number | null;
  problem: string;
  entries: AnyEntry[];
  startedMs: number;
  lastMs: number;
};

type Options = { keys?: readonly string[]; receipts?: readonly Statement[]; onProgress?: (events: number) => Promise<void> | void };

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });
const hashOf = (bytes: Uint8Array) => bytesToHex(sha256(bytes));

export async function verifyRecord(file: Uint8Array, options: Options = {}): Promise<Report> {
  const check = new Check(options.keys ?? [], options.receipts ?? []);
  try {
    await check.run(await openArchive(file), options.onProgress);
  } catch (error) {
    if (!(error instanceof InvalidRecord)) throw error;
    return { ...check.report, ok: false, problem: error.message, firstBad: error.seq };
  }
  return { ...check.report, ok: true };
}

export function parseReceipt(text: string): Statement {
  let fields: unknown;
  try {
    fields = JSON.parse(text);
  } catch {
    throw new InvalidRecord("The receipt is not good JSON.");
  }
  return naming("The receipt", null, () => parseStatement(canonical(fields)));
}

class Check {
  readonly report: Report;
  private publicKeys = new Map<string, Uint8Array>();
  private head = "0".repeat(64);
  private covered = 0;
  private signers = new Set<string>();

  constructor(private readonly pins: readonly string[], private readonly receipts: readonly Statement[]) {
    this.report = { ok: false, session: "", events: 0, erased: 0, gaps: 0, ended: false, keys: [], pinned: pins.length > 0, firstBad: null, problem: "", entries: [], startedMs: 0, lastMs: 0 };
  }

  async run(archive: Archive, onProgress: Options["onProgress"]): Promise<void> {
    const manifest = this.open(archive);
    const receipts = [...this.receipts].sort((a, b) => a.seq - b.seq);
    for (const receipt of receipts) {
      if (receipt.kind !== "receipt") throw new InvalidRecord(`The ${receipt.kind} statement for event ${receipt.seq} was given as a receipt.`);
      this.checkSigner(receipt, null);
    }
    const statements = statementsOf(archive["statements.ndjson"]);
    let next = statements.next();
    for (const line of linesOf(archive["events.ndjson"], () => this.report.events + 1)) {
      const seq = this.report.events + 1;
      const fields = naming(`Event ${seq}`, seq, () => parseEvent(line));
      this.checkPlace(fields);
      const payload = this.checkContent(fields);
      const kinds = new Set<string>();
      for (; !next.done && next.value.seq <= seq; next = statements.next()) {
        const statement = next.value;
        if (statement.seq < seq) throw new InvalidRecord(`statements.ndjson is out of order: the ${statement.kind} statement for event ${statement.seq} comes after one for a later event.`, statement.seq);
        this.checkStatement(statement, fields);
        if (kinds.has(statement.kind)) throw new InvalidRecord(`Event ${seq} has more than one ${statement.kind} statement.`, seq);
        kinds.add(statement.kind);
      }
      this.checkRequired(fields, kinds);
      while (receipts[0]?.seq === seq) {
        const receipt = receipts.shift();
        if (receipt && receipt.hash !== fields.hash) throw new InvalidRecord(`The record was rewritten: a receipt says that event ${seq} has the hash ${receipt.hash}, and here it has ${fields.hash}.`, seq);
      }
      this.report.entries.push({ seq, at_ms: fields.at_ms, event: (payload ?? { type: fields.type, erased: true }) as AnyEntry["event"] });
      if (seq % 2000 === 0) await onProgress?.(seq);
    }
    this.checkEnd(manifest, next.done ? null : next.value, receipts);
    this.report.keys = [...this.signers].sort();
  }

  private open(archive: Archive): { events: number; head: string } {
    if (new TextDecoder().decode(archive["README.txt"]) !== README) throw new InvalidRecord("README.txt is not the one that Hutch writes: do not follow what it says.");
    const manifest = naming("manifest.json", null, () => {
      const fields = parseLine(onlyLine(archive["manifest.json"]), null);
      if (fields["format"] !== "hutch-record") throw new InvalidRecord("its format is not 'hutch-record'");
      if (fields["version"] !== 1) throw new InvalidRecord("its version is not 1, which this page reads");
      expectNames(fields, ["events", "format", "head", "session", "version"]);
      return { events: whole(fields, "events", 0), head: hex(fields, "head", 64), session: sessionOf(fields["session"]) };
    });
    this.report.session = manifest.session;
    naming("keys.json", null, () => {
      for (const [name, value] of Object.entries(parseLine(onlyLine(archive["keys.json"]), null))) {
        const key = base64(value, 32, "a key");
        if (hashOf(key) !== name) throw new InvalidRecord(`the key named '${name.slice(0, 80)}' has the fingerprint ${hashOf(key)}`);
        this.publicKeys.set(name, key);
      }
    });
    return manifest;
  }

  private checkPlace(fields: EventLine): void {
    const { report } = this;
    const seq = report.events + 1;
    if (fields.seq !== seq) throw new InvalidRecord(`Event ${seq} is missing: event ${fields.seq} stands in its place.`, seq);
    if (report.ended) throw new InvalidRecord(`Event ${seq} follows session.ended, after which nothing can happen.`, seq);
    if (seq === 1 && fields.type !== "session.opened") throw new InvalidRecord(`Event 1 is ${fields.type}, and every record starts with session.opened.`, 1);
    if (fields.at_ms < report.lastMs) throw new InvalidRecord(`Event ${seq} is from ${fields.at_ms} ms, before event ${seq - 1} at ${report.lastMs} ms.`, seq);
    const header = `{"at_ms":${fields.at_ms},"payload_hash":"${fields.payload_hash}","prev":"${this.head}","seq":${seq},"session":"${report.session}","type":"${fields.type}","v":1}`;
    if (hashOf(encoder.encode(header)) !== fields.hash) throw new InvalidRecord(`Event ${seq} is not the one that was recorded after event ${seq - 1}: its hash does not fit.`, seq);
    if (seq === 1) report.startedMs = fields.at_ms;
    report.events = seq;
    report.lastMs = fields.at_ms;
    report.ended = fields.type === "session.ended";
    this.head = fields.hash;
  }

  private checkContent(fields: EventLine): Record<string, unknown> | null {
    const { seq, payload, salt } = fields;
    if (payload === null) {
      if (salt !== null) throw new InvalidRecord(`Event ${seq}: its payload is missing, though it was not erased.`, seq);
      this.report.erased += 1;
      return null;
    }
    if (salt === null) throw new InvalidRecord(`Event ${seq}: its salt is missing, so its payload cannot be checked.`, seq);
    const bytes = encoder.encode(payload);
    const salted = new Uint8Array(16 + bytes.length);
    salted.set(hexToBytes(salt));
    salted.set(bytes, 16);
    if (hashOf(salted) !== fields.payload_hash) throw new InvalidRecord(`Event ${seq}: its payload is not the one that was recorded.`, seq);
    const event = naming(`Event ${seq}`, seq, () => checkPayload(payload, bytes.length, fields.type));
    if (fields.type === "events.omitted") this.report.gaps += 1;
    return event;
  }

  private checkStatement(statement: Statement, fields: EventLine): void {
    const { seq } = fields;
    this.checkSigner(statement, seq);
    if (statement.kind === "erasure") {
      if (fields.payload !== null) throw new InvalidRecord(`Event ${seq}: a statement says its payload was erased, but it is here.`, seq);
      if (statement.hash !== fields.payload_hash) throw new InvalidRecord(`Event ${seq}: the payload that was erased by statement is another one.`, seq);
      return;
    }
    if (statement.hash !== fields.hash) throw new InvalidRecord(`Event ${seq} has another hash than its ${statement.kind} statement signed: an event from ${this.covered + 1} to ${seq} was changed, added or removed, and the chain made anew.`, seq);
    if (statement.kind === "end" && fields.type !== "session.ended") throw new InvalidRecord(`Event ${seq} is signed as the end of the session, but it is ${fields.type}.`, seq);
    this.covered = seq;
  }

  private checkRequired({ seq, payload }: EventLine, kinds: ReadonlySet<string>): void {
    if (payload === null && !kinds.has("erasure")) throw new InvalidRecord(`Event ${seq}: its payload is missing, and no statement says it was erased.`, seq);
    if (this.report.ended && !kinds.has("end")) throw new InvalidRecord(`Event ${seq} is session.ended, but no end statement signs it.`, seq);
  }

  private checkSigner(statement: Statement, seq: number | null): void {
    const name = `The ${statement.kind} statement for event ${statement.seq}`;
    if (statement.session !== this.report.session) throw new InvalidRecord(`${name} is about session ${statement.session}, not ${this.report.session}.`, seq);
    if (this.pins.length > 0 && !this.pins.includes(statement.key)) throw new InvalidRecord(`${name} is signed by ${statement.key}, not by the key you gave.`, seq);
    const key = this.publicKeys.get(statement.key);
    if (!key) throw new InvalidRecord(`${name} is signed by ${statement.key}, which is not in keys.json.`, seq);
    const { signature, ...signed } = statement;
    if (!isSigned(base64(signature, 64, "its signature"), encoder.encode(`hutch.statement.v1\n${canonical(signed)}`), key, { zip215: false })) throw new InvalidRecord(`${name} has a false signature: it was not written by ${statement.key}.`, seq);
    this.signers.add(statement.key);
  }

  private checkEnd(manifest: { events: number; head: string }, late: Statement | null, receipts: readonly Statement[]): void {
    const { events } = this.report;
    if (late) this.checkSigner(late, events + 1);
    const beyond = late ?? receipts[0];
    if (beyond) throw new InvalidRecord(`The record was truncated: it ends at event ${events}, and the ${beyond.kind} statement for event ${beyond.seq} says that there was more.`, events + 1);
    if (events === 0) throw new InvalidRecord("The record holds no events: not even session.opened.", 1);
    if (this.covered < events) throw new InvalidRecord(`Event ${this.covered + 1} is not signed: no valid statement covers it or one after it.`, this.covered + 1);
    if (manifest.events !== events) throw new InvalidRecord(`manifest.json speaks of ${manifest.events} events, and the record holds ${events}.`, Math.min(manifest.events, events) + 1);
    if (manifest.head !== this.head) throw new InvalidRecord(`manifest.json gives another hash for the last event, ${events}.`, events);
  }
}

type EventLine = { at_ms: number; hash: string; payload: string | null; payload_hash: string; salt: string | null; seq: number; type: string };

function parseEvent(line: string): EventLine {
  const fields = parseLine(line, EVENT);
  const { payload, salt, type } = fields;
  if (payload !== null && typeof payload !== "string") throw new InvalidRecord("its payload is not a string");
  if (typeof type !== "string" || !TYPE.test(type)) throw new InvalidRecord("its type is not one of an event, such as 'session.opened'");
  return { at_ms: whole(fields, "at_ms", 0, MAX_MS), hash: hex(fields, "hash", 64), payload, payload_hash: hex(fields, "payload_hash", 64), salt: salt === null ? null : hex(fields, "salt", 32), seq: whole(fields, "seq", 1), type };
}

function parseStatement(line: string): Statement {
  const fields = parseLine(line, STATEMENT);
  const { kind, reason, signature } = fields;
  if (typeof kind !== "string" || !KINDS.includes(kind)) throw new InvalidRecord(`its kind is not one of ${KINDS.join(", ")}`);
  if (typeof reason !== "string") throw new InvalidRecord("its reason is not a string");
  base64(signature, 64, "its signature");
  return { at_ms: whole(fields, "at_ms", 0, MAX_MS), hash: hex(fields, "hash", 64), key: hex(fields, "key", 64), kind, reason, seq: whole(fields, "seq", 1), session: sessionOf(fields["session"]), signature: signature as string };
}

function* statementsOf(content: Uint8Array): Generator<Statement, null> {
  let number = 0;
  for (const line of linesOf(content, () => null)) {
    number += 1;
    yield naming(`Line ${number} of statements.ndjson`, null, () => parseStatement(line));
  }
  return null;
}

function* linesOf(content: Uint8Array, seq: () => number | null): Generator<string> {
  for (let start = 0; start < content.length;) {
    const end = content.indexOf(10, start);
    if (end < 0) throw new InvalidRecord("The last line of a file is cut short: it has no end.", seq());
    yield decoded(content.subarray(start, end), seq());
    start = end + 1;
  }
}

function onlyLine(content: Uint8Array): string {
  if (content.at(-1) !== 10) throw new InvalidRecord("it is cut short: its line has no end");
  return decoded(content.subarray(0, -1), null);
}

function decoded(bytes: Uint8Array, seq: number | null): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new InvalidRecord("A line is not UTF-8.", seq);
  }
}

function naming<T>(what: string, seq: number | null, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof InvalidRecord ? new InvalidRecord(`${what}: ${error.message.replace(/\.$/, "")}.`, seq) : error;
  }
}

function whole(fields: Record<string, unknown>, name: string, minimum: number, maximum = Number.MAX_SAFE_INTEGER): number {
  const value = fields[name];
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < minimum || value > maximum) throw new InvalidRecord(`its ${name} is not a whole number from ${minimum} to ${maximum}`);
  return value;
}

function hex(fields: Record<string, unknown>, name: string, digits: number): string {
  const value = fields[name];
  if (typeof value !== "string" || value.length !== digits || !/^[0-9a-f]*$/.test(value)) throw new InvalidRecord(`its ${name} is not ${digits} lower-case hex digits`);
  return value;
}

function sessionOf(value: unknown): string {
  if (typeof value !== "string" || !SESSION.test(value)) throw new InvalidRecord("its session is not a session id");
  return value;
}

function base64(value: unknown, size: number, what: string): Uint8Array {
  let text = "";
  try {
    text = typeof value === "string" ? atob(value) : "";
  } catch {
    // refused below
  }
  if (text.length !== size || btoa(text) !== value) throw new InvalidRecord(`${what} is not ${size} bytes in base64`);
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}

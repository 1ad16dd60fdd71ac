// Files that the server does not share as documents: small texts whole, large and binary ones as a page of bytes.
import { inAddress, send } from "../../../api/http_client";

export const PAGE_BYTES = 1024 * 1024;
const MAX_BYTES = 10 * 1024 * 1024;
const BINARY_PAGE_BYTES = 4096;
const SNIFFED_BYTES = 8000;
const ROW_BYTES = 16;

export type WholeText = { kind: "text"; text: string; etag: string };
/** A part of a file: its place, the size and SHA-256 of all of it, and its text (of a binary file, its bytes in hex). */
export type Part = { kind: "large" | "binary"; text: string; etag: string; start: number; end: number; size: number };

export const addressOf = (session: string, path: string) => `/sessions/${session}/files/${inAddress(path)}`;

/** The whole text of a file, or one page of a file that is too large or no text. */
export async function readFile(session: string, path: string): Promise<WholeText | Part> {
  const response = await send(addressOf(session, path));
  const etag = response.headers.get("ETag") ?? "";
  const size = Number(response.headers.get("Content-Length"));
  if (size > MAX_BYTES) {
    await response.body?.cancel();
    return readPage(session, path, 0);
  }
  const bytes = new Uint8Array(await response.arrayBuffer());
  const text = textIn(bytes, false);
  if (text !== null) return { kind: "text", text, etag };
  return { kind: "binary", text: hexOf(bytes.subarray(0, BINARY_PAGE_BYTES)), etag, start: 0, end: Math.min(bytes.length, BINARY_PAGE_BYTES), size: bytes.length };
}

/** The bytes from `start` on; of a binary file fewer. */
export async function readPage(session: string, path: string, start: number): Promise<Part> {
  const response = await send(addressOf(session, path), { headers: { Range: `bytes=${start}-${start + PAGE_BYTES - 1}` } });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const [, from = "0", size = "0"] = /bytes (\d+)-\d+\/(\d+)/.exec(response.headers.get("Content-Range") ?? "") ?? [];
  const place = { etag: response.headers.get("ETag") ?? "", start: Number(from), size: Number(size) || bytes.length };
  const text = textIn(bytes, true);
  const binary = bytes.subarray(0, BINARY_PAGE_BYTES);
  return text === null ? { kind: "binary", ...place, text: hexOf(binary, place.start), end: place.start + binary.length } : { kind: "large", ...place, text, end: place.start + bytes.length };
}

/** Null if the bytes are no UTF-8 text. Where a page begins or ends within a character, that character is cut off. */
export function textIn(bytes: Uint8Array, isPart: boolean): string | null {
  if (bytes.subarray(0, SNIFFED_BYTES).includes(0)) return null;
  let [from, to] = [0, bytes.length];
  if (isPart) {
    while (from < 3 && isContinuation(bytes[from])) from += 1;
    const last = [1, 2, 3, 4].find((back) => to - back >= from && !isContinuation(bytes[to - back])) ?? 0;
    if (last > 1 || (bytes[to - 1] ?? 0) >= 0x80) to = lengthOf(bytes[to - last] ?? 0) > last ? to - last : to;
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes.subarray(from, to));
  } catch {
    return null;
  }
}

const isContinuation = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80;
const lengthOf = (byte: number) => (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1);

/** Bytes as people read them: the offset, 16 bytes in hex, and the characters that can be printed. */
export function hexOf(bytes: Uint8Array, offset = 0): string {
  const rows: string[] = [];
  for (let at = 0; at < bytes.length; at += ROW_BYTES) {
    const row = [...bytes.subarray(at, at + ROW_BYTES)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(ROW_BYTES * 3 - 1);
    rows.push(`${(offset + at).toString(16).padStart(8, "0")}  ${hex}  ${row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("")}`);
  }
  return rows.join("\n");
}

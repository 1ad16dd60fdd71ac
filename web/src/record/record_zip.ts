// The zip of a record. Every byte outside the packed data is specified, so it is built again and compared.
import { InvalidRecord } from "./canonical_json";

const NAMES = ["README.txt", "events.ndjson", "statements.ndjson", "keys.json", "manifest.json"] as const;
export type Name = (typeof NAMES)[number];
const MAX_BYTES = 1024 ** 3; // unpacked, in a browser; the command reads larger ones
const WHOLE = 2 ** 32 - 1;

export type Archive = Record<Name, Uint8Array>;

export async function openArchive(file: Uint8Array): Promise<Archive> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const end = file.length - 22;
  if (end < 0 || view.getUint32(end, true) !== 0x06054b50) throw damaged();
  let at = view.getUint32(end + 16, true); // the directory
  const parts: { name: Name; crc: number; packed: number; size: number; offset: number }[] = [];
  for (const name of NAMES) {
    if (at + 46 > end || view.getUint32(at, true) !== 0x02014b50) throw damaged();
    parts.push({ name, crc: view.getUint32(at + 16, true), packed: view.getUint32(at + 20, true), size: view.getUint32(at + 24, true), offset: view.getUint32(at + 42, true) });
    at += 46 + name.length;
  }
  const total = parts.reduce((sum, each) => sum + each.size, 0);
  if (total > MAX_BYTES) throw new InvalidRecord(`The record is ${total} bytes unpacked, more than this page reads. Check it with hutch verify.`);
  compare(file, parts);
  const found: Partial<Archive> = {};
  for (const part of parts) found[part.name] = await unpack(file, part);
  return found as Archive;
}

const damaged = () => new InvalidRecord("This is not the zip of a record: its structure is another one.");

function compare(file: Uint8Array, parts: { name: Name; crc: number; packed: number; size: number; offset: number }[]): void {
  const directory = new Bytes();
  let offset = 0;
  for (const { name, crc, packed, size, offset: given } of parts) {
    const header = new Bytes().u32(0x04034b50).u16(45, 0, 8, 0, 33).u32(crc, WHOLE, WHOLE).u16(name.length, 20).text(name).u16(1, 16).u64(size, packed);
    if (given !== offset || !startsWith(file, header.list, offset)) throw new InvalidRecord(`The zip was changed: the header of ${name} is not the one that Hutch writes.`);
    directory.u32(0x02014b50).u16(813, 45, 0, 8, 0, 33).u32(crc, packed, size).u16(name.length, 0, 0, 0, 0).u32(2175008768, offset).text(name);
    offset += header.list.length + packed;
  }
  const size = directory.list.length;
  directory.u32(0x06054b50).u16(0, 0, 5, 5).u32(size, offset).u16(0);
  if (offset + directory.list.length !== file.length || !startsWith(file, directory.list, offset)) throw new InvalidRecord("The zip was changed: its directory is not the one that Hutch writes.");
}

class Bytes {
  readonly list: number[] = [];
  u16(...values: number[]): this {
    for (const value of values) this.list.push(value & 255, value >>> 8);
    return this;
  }
  u32(...values: number[]): this {
    for (const value of values) this.list.push(value & 255, (value >>> 8) & 255, (value >>> 16) & 255, value >>> 24);
    return this;
  }
  u64(...values: number[]): this {
    for (const value of values) this.u32(value >>> 0, Math.floor(value / 2 ** 32));
    return this;
  }
  text(value: string): this {
    this.list.push(...new TextEncoder().encode(value));
    return this;
  }
}

const startsWith = (file: Uint8Array, bytes: readonly number[], offset: number) => bytes.every((byte, index) => file[offset + index] === byte);

async function unpack(file: Uint8Array, { name, crc, packed, size, offset }: { name: Name; crc: number; packed: number; size: number; offset: number }): Promise<Uint8Array> {
  const start = offset + 30 + name.length + 20;
  const data = file.slice(start, start + packed);
  let content: Uint8Array;
  try {
    const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const reader = stream.getReader();
    content = new Uint8Array(size);
    let filled = 0;
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      if (filled + read.value.length > size) throw new InvalidRecord(`${name} is longer than the zip says.`);
      content.set(read.value, filled);
      filled += read.value.length;
    }
    if (filled !== size) throw new InvalidRecord(`${name} is shorter than the zip says.`);
  } catch (error) {
    throw error instanceof InvalidRecord ? error : new InvalidRecord(`${name} cannot be unpacked: its data is damaged.`);
  }
  if (crc32(content) !== crc) throw new InvalidRecord(`The checksum of ${name} does not match its content.`);
  return content;
}

let table: Uint32Array | undefined;

function crc32(bytes: Uint8Array): number {
  table ??= Uint32Array.from({ length: 256 }, (_, index) => {
    let value = index;
    for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
    return value >>> 0;
  });
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (table[(crc ^ byte) & 255] ?? 0) ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

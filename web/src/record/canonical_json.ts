// JSON that can be written in one way only, and JSON that can be read in one way only. See docs/record.md.
export class InvalidRecord extends Error {
  constructor(message: string, readonly seq: number | null = null) {
    super(message);
  }
}

const encoder = new TextEncoder();
const compareBytes = (a: string, b: string) => {
  const [first, second] = [encoder.encode(a), encoder.encode(b)];
  for (let at = 0; at < Math.min(first.length, second.length); at += 1) {
    const difference = (first[at] ?? 0) - (second[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return first.length - second.length;
};

/** Canonical JSON of strings, whole numbers, null and flat objects of them: all that the lines of a record have. */
export function canonical(value: unknown): string {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    const names = Object.keys(value).sort(compareBytes);
    return `{${names.map((name) => `${JSON.stringify(name)}:${canonical((value as Record<string, unknown>)[name])}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

/** The object in a canonical line, with exactly these names, unless they are left open. */
export function parseLine(line: string, names: readonly string[] | null): Record<string, unknown> {
  let fields: unknown;
  try {
    fields = JSON.parse(line);
  } catch {
    throw new InvalidRecord("it is not good JSON");
  }
  if (fields === null || typeof fields !== "object" || Array.isArray(fields)) throw new InvalidRecord("it is not an object");
  if (names) expectNames(fields as Record<string, unknown>, names);
  if (canonical(fields) !== line) throw new InvalidRecord("it is not canonical JSON: names sorted and not repeated, no spaces, shortest escapes");
  return fields as Record<string, unknown>;
}

export function expectNames(fields: Record<string, unknown>, names: readonly string[]): void {
  const lacking = names.find((name) => !(name in fields));
  if (lacking) throw new InvalidRecord(`it lacks '${lacking}'`);
  const unknown = Object.keys(fields).find((name) => !names.includes(name));
  if (unknown !== undefined) throw new InvalidRecord(`it has an unknown '${unknown.slice(0, 80)}'`);
}

const MAX_PAYLOAD_BYTES = 16 * 1024 ** 2;
const MAX_VALUES = 1_000_000;
const MAX_DEPTH = 254;

/** Refuse a payload that two readers could understand in two ways, or that is too large to read. */
export function checkPayload(text: string, bytes: number, type: string): Record<string, unknown> {
  if (bytes > MAX_PAYLOAD_BYTES) throw new InvalidRecord(`its payload is ${bytes} bytes, over the limit of ${MAX_PAYLOAD_BYTES}`);
  scan(text);
  let event: unknown;
  try {
    event = JSON.parse(text);
  } catch {
    throw new InvalidRecord("its payload is not good JSON");
  }
  if (event === null || typeof event !== "object" || Array.isArray(event)) throw new InvalidRecord("its payload is not an object");
  const found = (event as Record<string, unknown>)["type"];
  if (found !== type) throw new InvalidRecord(`its payload is of type '${String(found).slice(0, 80)}', but it is filed as '${type}'`);
  return event as Record<string, unknown>;
}

/** Count values, measure the depth, and look for repeated names. The text need not be valid JSON; JSON.parse decides that. */
function scan(text: string): void {
  const objects: (Set<string> | null)[] = []; // null: an array
  let [values, strings] = [0, 0];
  let isName = false;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (char === '"') {
      const start = at;
      for (at += 1; at < text.length && text[at] !== '"'; at += 1) if (text[at] === "\\") at += 1;
      strings += 1;
      const names = objects.at(-1);
      if (isName && names) {
        const name = nameOf(text.slice(start, at + 1));
        if (names.has(name)) throw new InvalidRecord("a name is repeated in its payload");
        names.add(name);
        isName = false;
      }
    } else if (char === "{" || char === "[") {
      objects.push(char === "{" ? new Set() : null);
      isName = char === "{";
      values += 1;
      if (objects.length > MAX_DEPTH) throw new InvalidRecord(`its payload is nested deeper than ${MAX_DEPTH} levels`);
    } else if (char === "}" || char === "]") {
      objects.pop();
      isName = false;
    } else if (char === ",") {
      values += 1;
      isName = objects.at(-1) instanceof Set;
    } else if (char === ":") {
      values += 1;
    }
    if (values > MAX_VALUES || strings > MAX_VALUES) throw new InvalidRecord(`its payload holds more than ${MAX_VALUES} names and values`);
  }
}

function nameOf(quoted: string): string {
  try {
    return JSON.parse(quoted) as string;
  } catch {
    return quoted;
  }
}

// Parses JSON that is still being written: its value so far, and the path of the incomplete value.
export type Partial_ = { value: unknown; open: (string | number)[] | null }; // the path of the incomplete value

const ESCAPES: Record<string, string> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", "/": "/", "\\": "\\", '"': '"' };

/** Never throws: invalid JSON ends the value before it. */
export function parsePartial(text: string): Partial_ {
  const reader = new Reader(text);
  const value = reader.value([]);
  return { value, open: reader.open };
}

class Reader {
  open: (string | number)[] | null = null;
  private at = 0;

  constructor(private readonly text: string) {}

  value(path: (string | number)[]): unknown {
    this.skip();
    switch (this.text[this.at]) {
      case undefined: return this.stop(path, undefined);
      case "{": return this.object(path);
      case "[": return this.array(path);
      case '"': return this.string(path);
      default: return this.word(path);
    }
  }

  private skip(): void {
    while (/\s/.test(this.text[this.at] ?? "")) this.at += 1;
  }

  private stop<T>(path: (string | number)[], value: T): T {
    this.open ??= path;
    this.at = this.text.length;
    return value;
  }

  private object(path: (string | number)[]): Record<string, unknown> {
    const made: Record<string, unknown> = {};
    this.at += 1;
    for (;;) {
      this.skip();
      const char = this.text[this.at];
      if (char === "}") {
        this.at += 1;
        return made;
      }
      if (char === ",") {
        this.at += 1;
        continue;
      }
      if (char !== '"') return this.stop(path, made);
      const before = this.open;
      const key = this.string(path);
      if (this.open !== before) return made; // the name itself is incomplete
      this.skip();
      if (this.text[this.at] !== ":") return this.stop(path, made);
      this.at += 1;
      const value = this.value([...path, key]);
      if (value !== undefined) made[key] = value;
      if (this.open) return made;
    }
  }

  private array(path: (string | number)[]): unknown[] {
    const made: unknown[] = [];
    this.at += 1;
    for (;;) {
      this.skip();
      const char = this.text[this.at];
      if (char === "]") {
        this.at += 1;
        return made;
      }
      if (char === ",") {
        this.at += 1;
        continue;
      }
      if (char === undefined) return this.stop(path, made);
      const value = this.value([...path, made.length]);
      if (value !== undefined) made.push(value);
      if (this.open) return made;
    }
  }

  private string(path: (string | number)[]): string {
    const parts: string[] = [];
    let start = this.at + 1;
    for (let at = start; ; at += 1) {
      const char = this.text[at];
      if (char === undefined) {
        parts.push(this.text.slice(start, at));
        return this.stop(path, parts.join(""));
      }
      if (char === '"') {
        parts.push(this.text.slice(start, at));
        this.at = at + 1;
        return parts.join("");
      }
      if (char !== "\\") continue;
      parts.push(this.text.slice(start, at));
      const next = this.text[at + 1];
      const isUnicode = next === "u";
      const code = this.text.slice(at + 2, at + 6);
      if (next === undefined || (isUnicode && code.length < 4)) return this.stop(path, parts.join(""));
      parts.push(isUnicode ? String.fromCharCode(parseInt(code, 16) || 0xfffd) : ESCAPES[next] ?? next);
      at += isUnicode ? 5 : 1;
      start = at + 1;
    }
  }

  private word(path: (string | number)[]): unknown {
    const found = /^[^\s,\]}]*/.exec(this.text.slice(this.at, this.at + 64))?.[0] ?? "";
    this.at += found.length;
    if (!found || this.at >= this.text.length) return this.stop(path, undefined);
    if (found === "true" || found === "false") return found === "true";
    return found === "null" || Number.isNaN(Number(found)) ? null : Number(found);
  }
}

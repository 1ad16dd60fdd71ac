// Output of a jail is hostile. A terminal of VS Code does more than draw: some sequences write to the clipboard (OSC 52), claim
// commands for "Run Recent Command" (OSC 633), or send notifications. Only strings of the kinds below pass.
const TITLES_AND_COLOURS = new Set(["0", "1", "2", "4", "10", "11", "12", "104", "110", "111", "112"]);
const LINK = /^8;[^;]*;(https?:\/\/.*)?$/s;
const MAX_STRING_CHARS = 4096;
// ESC and a character, or the one character that means the same.
const STARTS: Record<string, string> = { "]": "]", P: "P", X: "P", "^": "P", _: "P", "\u009d": "]", "\u0090": "P", "\u0098": "P", "\u009e": "P", "\u009f": "P" };
const SPECIAL = /[\u001b\u0090\u0098\u009d-\u009f]/;

export class TerminalFilter {
  private state: "text" | "escape" | "string" | "string escape" = "text";
  private isCommand = false; // an OSC string; others never pass
  private string = "";

  /** The output that may be shown. A sequence may be cut anywhere; its end comes with the next call. */
  pass(output: string): string {
    if (this.state === "text" && !SPECIAL.test(output)) return output;
    let passed = "";
    for (const char of output) passed += this.next(char);
    return passed;
  }

  private next(char: string): string {
    switch (this.state) {
      case "text": return this.text(char);
      case "escape": return this.escape(char);
      case "string": return this.inString(char);
      case "string escape":
        if (char === "\\") return this.end();
        this.state = "escape"; // anything else begins a new sequence
        return this.escape(char);
    }
  }

  private text(char: string): string {
    const start = STARTS[char];
    if (char === "\u001b") this.state = "escape";
    else if (start && char > "\u007f") this.begin(start);
    else return char;
    return "";
  }

  private escape(char: string): string {
    if (char === "\u001b") return "";
    const start = STARTS[char];
    this.state = "text";
    if (!start) return `\u001b${char}`;
    this.begin(start);
    return "";
  }

  private begin(start: string): void {
    this.state = "string";
    this.isCommand = start === "]";
    this.string = "";
  }

  private inString(char: string): string {
    if (char === "\u0007" || char === "\u009c") return this.end();
    if (char === "\u001b") this.state = "string escape";
    else if (char === "\u0018" || char === "\u001a") this.state = "text"; // cancelled
    else if (this.string.length < MAX_STRING_CHARS) this.string += char;
    else this.isCommand = false;
    return "";
  }

  private end(): string {
    this.state = "text";
    const kind = this.string.split(";", 1)[0] ?? "";
    const passes = this.isCommand && (TITLES_AND_COLOURS.has(kind) || LINK.test(this.string));
    return passes ? `\u001b]${this.string}\u0007` : "";
  }
}

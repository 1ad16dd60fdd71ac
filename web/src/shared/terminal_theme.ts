// Terminals in the colours of the page, and what a link in one does.
import type { ITheme } from "@xterm/xterm";
import { strings } from "../strings";

export function terminalTheme(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const [red, green, yellow, blue, magenta, cyan] = ["--bad", "--ok", "--warn", "--link", "--agent", "--info"].map(colour) as [string, string, string, string, string, string];
  return {
    background: colour("--panel"), foreground: colour("--text-1"), cursor: colour("--text-1"), cursorAccent: colour("--panel"), selectionBackground: colour("--selection"),
    black: colour("--text-3"), red, green, yellow, blue, magenta, cyan, white: colour("--text-2"),
    brightBlack: colour("--text-3"), brightRed: red, brightGreen: green, brightYellow: yellow, brightBlue: blue, brightMagenta: magenta, brightCyan: cyan, brightWhite: colour("--text-1"),
  };
}

/** Only http addresses, after the whole address was shown. */
export function openLink(_: MouseEvent, address: string): void {
  let url: URL;
  try {
    url = new URL(address);
  } catch {
    return;
  }
  if (/^https?:$/.test(url.protocol) && window.confirm(strings.terminal.open(url.href))) window.open(url.href, "_blank", "noopener,noreferrer");
}

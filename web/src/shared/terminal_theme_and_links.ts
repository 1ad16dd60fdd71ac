// The colours of terminals, and the handling of links in them.
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

/** The target of a link, as the browser resolves it; empty if it is not an http address. */
export function targetOf(address: string): string {
  try {
    const url = new URL(address);
    return /^https?:$/.test(url.protocol) ? url.href : "";
  } catch {
    return "";
  }
}

/** With Ctrl or Cmd, only http addresses, and after the whole address was shown: programs print any text over a link. */
export function openLink(event: MouseEvent, address: string): void {
  const target = targetOf(address);
  if ((event.ctrlKey || event.metaKey) && target && window.confirm(strings.terminal.open(target))) window.open(target, "_blank", "noopener,noreferrer");
}

import { expect, test } from "vitest";
import { SCOPES, SHORTCUTS, type ShortcutId, isPressed, keysOf } from "./shortcuts";

const entries = Object.entries(SHORTCUTS) as [ShortcutId, (typeof SHORTCUTS)[ShortcutId]][];
const none = { ctrlKey: false, metaKey: false, altKey: false, shiftKey: false };

test("no two shortcuts of one scope have the same keys, and none hides one that works anywhere", () => {
  const anywhere = entries.filter(([, each]) => each.scope === "anywhere").flatMap(([, each]) => each.keys);
  for (const scope of SCOPES) {
    const own = entries.filter(([, each]) => each.scope === scope).flatMap(([, each]) => each.keys);
    const all = scope === "anywhere" ? own : [...own, ...anywhere];
    expect(all.filter((keys, at) => all.indexOf(keys) !== at)).toEqual([]);
    // The first key of a sequence does nothing by itself.
    expect(all.filter((keys) => all.some((other) => other.startsWith(`${keys} `)))).toEqual([]);
  }
});

test("no shortcut takes keys that browsers reserve", () => {
  const reserved = ["Mod+n", "Mod+t", "Mod+w", "Mod+Shift+n", "Mod+Shift+t", "Mod+Shift+w", "Mod+Shift+p", "Mod+Tab"];
  expect(entries.flatMap(([, each]) => each.keys).filter((keys) => reserved.includes(keys) || keys.includes("Alt+"))).toEqual([]);
});

test("keys are shown as people read them, and recognised as browsers send them", () => {
  expect([keysOf("palette"), keysOf("goHome"), keysOf("tenth"), keysOf("farBack"), keysOf("stop")]).toEqual(["Ctrl K", "g h", "0 … 9", "Shift ←", "Esc Esc"]);
  expect(isPressed({ ...none, key: "k", ctrlKey: true }, "palette")).toBe(true);
  expect(isPressed({ ...none, key: "k" }, "palette")).toBe(false);
  expect(isPressed({ ...none, key: "p", ctrlKey: true, shiftKey: true }, "openFile")).toBe(false);
  expect(isPressed({ ...none, key: "?", shiftKey: true }, "keys")).toBe(true);
  expect(isPressed({ ...none, key: "ArrowLeft", shiftKey: true }, "back")).toBe(false);
  expect(isPressed({ ...none, key: " " }, "play")).toBe(true);
});

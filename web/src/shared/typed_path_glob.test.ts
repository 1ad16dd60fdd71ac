import { expect, it } from "vitest";
import { pathPattern } from "./typed_path_glob";

it("finds a part of a name or of a directory, whatever its case", () => {
  expect(pathPattern("a1")).toBe("{**/*[aA]1*,**/*[aA]1*/**/*}");
  expect(pathPattern("A")).toBe("{**/*[aA]*,**/*[aA]*/**/*}");
  expect(pathPattern("ß")).toBe("{**/*ß*,**/*ß*/**/*}"); // two characters when it is large
});

it("takes a slash as a step down, and a space as any gap", () => {
  expect(pathPattern("1/2")).toBe("{**/*1*/**/*2*,**/*1*/**/*2*/**/*}");
  expect(pathPattern(" 1 2 ")).toBe("{**/*1**2*,**/*1**2*/**/*}");
});

it("takes characters of patterns as themselves", () => {
  expect(pathPattern("*{!")).toBe("{**/*\\*\\{\\!*,**/*\\*\\{\\!*/**/*}");
  expect(pathPattern("  ")).toBe("**/*");
});

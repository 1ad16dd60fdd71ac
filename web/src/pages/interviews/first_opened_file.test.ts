import { expect, test } from "vitest";
import { startingFile } from "./first_opened_file";

test.each([
  [["QUESTION.md", "double.py", "test_double.py"], "double.py"],
  [["QUESTION.md", "tests/test_double.py", "src/double.py"], "src/double.py"],
  [["QUESTION.md", "double.test.js", "package.json", "double.js"], "double.js"],
  [["QUESTION.md", "double_test.go", "go.mod", "double.go"], "double.go"],
  [["QUESTION.md"], ""],
])("%j opens %s", (paths, expected) => {
  expect(startingFile(paths)).toBe(expected);
});

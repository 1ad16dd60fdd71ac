// Runs inside the jail: calls the code of one case, and prints the result after a mark.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const input = JSON.parse(fs.readFileSync(0, "utf8"));
const exit = process.exit.bind(process);
const results = [];
let isReported = false;

function report(fields) {
  if (isReported) return;
  isReported = true;
  let data = Buffer.from(`\n${input.mark} ${JSON.stringify({ results, ...fields })}\n`);
  while (data.length > 0) {
    try {
      data = data.subarray(fs.writeSync(1, data));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

function encoded(value) {
  if (value === undefined) return null;
  if (value instanceof Map || value instanceof Set) {
    throw new TypeError(`the result cannot be written as JSON: it is a ${value.constructor.name}`);
  }
  const text = JSON.stringify(value, (_, each) => {
    if (typeof each === "number" && !Number.isFinite(each)) {
      throw new TypeError(`the result cannot be written as JSON: it holds ${each}`);
    }
    return each;
  });
  if (text === undefined) throw new TypeError("the result cannot be written as JSON");
  return JSON.parse(text);
}

function show(error) {
  const stack = error instanceof Error && error.stack ? error.stack : String(error);
  const lines = stack.split("\n").filter((line) => !line.includes("hutch_case_driver"));
  fs.writeSync(2, lines.join("\n") + "\n");
  return error instanceof Error ? `${error.name}: ${error.message}`.slice(0, 2000) : String(error).slice(0, 2000);
}

function named(owner, name) {
  const found = owner[name] ?? owner.default?.[name];
  if (typeof found !== "function") throw new TypeError(`there is no function or class '${name}'`);
  return found;
}

async function perform() {
  const owner = await import(pathToFileURL(path.resolve(input.module)).href);
  if (input.call) {
    results.push(encoded(await named(owner, input.call)(...input.args)));
    return;
  }
  const made = new (named(owner, input.create))(...input.args);
  for (const [name, args] of input.steps) {
    if (typeof made[name] !== "function") throw new TypeError(`there is no method '${name}'`);
    results.push(encoded(await made[name](...args)));
  }
}

process.on("exit", (code) => report({ error: `the code ended the process with code ${code}` }));
process.on("uncaughtException", (error) => {
  report({ error: show(error) });
  exit(0);
});
try {
  await perform();
  report({});
} catch (error) {
  report({ error: show(error) });
}
exit(0);

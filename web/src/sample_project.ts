// The sample project, for people who want to see Hutch at work before they give it code of their own.
import code from "../../samples/slugs/slugs.py?raw";
import tests from "../../samples/slugs/test_slugs.py?raw";
import { strings } from "./strings";

export const sample = {
  purpose: "Repair the slugs",
  files: { "slugs.py": code, "test_slugs.py": tests },
  model: "scripted:demo",
  prompt: strings.create.promptHint,
};

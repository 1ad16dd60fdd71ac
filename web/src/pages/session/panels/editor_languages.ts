// Languages of the editor, each loaded when a file of it is opened.
import { type LanguageSupport, StreamLanguage } from "@codemirror/language";
import type { Extension } from "@codemirror/state";

type Loader = () => Promise<LanguageSupport | StreamLanguage<unknown>>;

const javascript = (options: { jsx?: boolean; typescript?: boolean }) => async () => (await import("@codemirror/lang-javascript")).javascript(options);
const html: Loader = async () => (await import("@codemirror/lang-html")).html();
const cpp: Loader = async () => (await import("@codemirror/lang-cpp")).cpp();
const yaml: Loader = async () => (await import("@codemirror/lang-yaml")).yaml();
const shell: Loader = async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/shell")).shell);
const toml: Loader = async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/toml")).toml);

const LOADERS: Record<string, Loader> = {
  py: async () => (await import("@codemirror/lang-python")).python(),
  js: javascript({ jsx: true }), jsx: javascript({ jsx: true }), mjs: javascript({}), cjs: javascript({}),
  ts: javascript({ typescript: true }), tsx: javascript({ typescript: true, jsx: true }),
  go: async () => (await import("@codemirror/lang-go")).go(),
  rs: async () => (await import("@codemirror/lang-rust")).rust(),
  java: async () => (await import("@codemirror/lang-java")).java(),
  c: cpp, h: cpp, cc: cpp, cpp, hpp: cpp, cxx: cpp,
  html, htm: html,
  css: async () => (await import("@codemirror/lang-css")).css(),
  json: async () => (await import("@codemirror/lang-json")).json(),
  yaml, yml: yaml,
  md: async () => (await import("@codemirror/lang-markdown")).markdown(),
  sh: shell, bash: shell, zsh: shell,
  toml,
};

export async function languageOf(path: string): Promise<Extension> {
  const load = LOADERS[path.split(".").pop()?.toLowerCase() ?? ""];
  return load ? load() : [];
}

import tseslint from "typescript-eslint";

export default tseslint.config(...tseslint.configs.strict, {
  rules: {
    // Its text would be Markdown, and texts of sessions are not ours: see src/untrusted_text.ts.
    "no-restricted-properties": ["error", { object: "vscode", property: "MarkdownString" }],
  },
});

import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["src/api/schema.ts"] },
  ...tseslint.configs.strict,
  reactHooks.configs.flat["recommended-latest"],
  {
    rules: {
      "no-restricted-properties": ["error", { property: "dangerouslySetInnerHTML" }, { property: "innerHTML" }, { object: "document", property: "title", message: "Use setPageTitle()." }],
      "no-restricted-syntax": ["error", { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "Text of others is shown as text." }],
      "react-hooks/incompatible-library": "off",
      // Fields that are not state of React are changed through their refs, also in hooks that get one.
      "react-hooks/immutability": "off",
    },
  },
);

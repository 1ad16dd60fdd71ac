// The editor in the colours of the page.
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

export const editorTheme = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", color: "var(--text-1)", backgroundColor: "var(--panel)" },
  "&.cm-focused": { outline: "none" }, // its place has the ring
  ".cm-scroller": { fontFamily: '"Hutch Mono", ui-monospace, "DejaVu Sans Mono", monospace', lineHeight: "20px", fontVariantLigatures: "none" },
  ".cm-content": { caretColor: "var(--text-1)" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--text-3)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--active-line)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground, ::selection": { backgroundColor: "var(--selection) !important" },
  ".cm-cursor": { borderLeftColor: "var(--text-1)" },
  ".cm-searchMatch": { backgroundColor: "var(--match)" },
  ".cm-panels": { backgroundColor: "var(--code)", color: "var(--text-1)", borderColor: "var(--line)" },
  ".cm-panel.cm-search": { padding: "4px 8px", fontFamily: "system-ui, sans-serif" },
  ".cm-textfield": { backgroundColor: "var(--panel)", border: "1px solid var(--edge)", borderRadius: "3px" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--panel)", border: "1px solid var(--edge)", borderRadius: "3px", color: "var(--text-1)" },
  ".cm-target-line": { backgroundColor: "var(--match)" },
  ".cm-specialChar": { color: "var(--bad)" },
});

export const editorHighlight = syntaxHighlighting(HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier, tags.controlKeyword], color: "var(--syn-keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--syn-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--syn-number)" },
  { tag: [tags.comment, tags.meta], color: "var(--syn-comment)" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.definition(tags.function(tags.variableName))], color: "var(--syn-function)" },
  { tag: [tags.typeName, tags.className, tags.namespace], color: "var(--syn-type)" },
  { tag: [tags.propertyName, tags.attributeName], color: "var(--syn-property)" },
  { tag: [tags.tagName, tags.heading], color: "var(--syn-tag)" },
  { tag: tags.invalid, color: "var(--syn-invalid)" },
  { tag: tags.strong, fontWeight: "600" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: tags.link, color: "var(--link)", textDecoration: "underline" },
]));

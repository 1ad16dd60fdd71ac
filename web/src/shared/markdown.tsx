// Markdown of models and people, as elements: no raw HTML, no images of other machines, links that show where they go.
import { type Token, type Tokens, marked } from "marked";
import { Fragment, type ReactNode, memo, useMemo } from "react";
import { CopyButton } from "./copy_button";
import { SafeText, hasHidden } from "./safe_text";

const MAX_CHARS = 200_000;

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  // Closed blocks keep their text while more arrives, so only the last block is parsed again.
  const blocks = useMemo(() => marked.lexer(text.slice(0, MAX_CHARS), { gfm: true }).filter((token) => token.type !== "space"), [text]);
  return (
    <div className="prose">
      {blocks.map((token, index) => <Block key={index} raw={token.raw} token={token} />)}
    </div>
  );
});

const Block = memo(function Block({ token }: { raw: string; token: Token }) {
  return render(token);
}, (before, after) => before.raw === after.raw);

const inside = (tokens: Token[] | undefined): ReactNode => tokens?.map((token, index) => <Fragment key={index}>{render(token)}</Fragment>);

function render(token: Token): ReactNode {
  switch (token.type) {
    case "heading": {
      const depth = Math.min(6, (token as Tokens.Heading).depth + 2);
      const Heading = `h${depth}` as "h3";
      return <Heading>{inside(token.tokens)}</Heading>;
    }
    case "paragraph":
      return <p>{inside(token.tokens)}</p>;
    case "text":
      return token.tokens ? inside(token.tokens) : <SafeText text={unescaped(token as Tokens.Text)} />;
    case "escape":
      return token.text as string;
    case "strong":
      return <strong>{inside(token.tokens)}</strong>;
    case "em":
      return <em>{inside(token.tokens)}</em>;
    case "del":
      return <del>{inside(token.tokens)}</del>;
    case "codespan":
      return <code><SafeText text={token.text as string} /></code>;
    case "br":
      return <br />;
    case "hr":
      return <hr />;
    case "code":
      return (
        <div className="code-block">
          <pre tabIndex={0}><code><SafeText text={token.text as string} /></code></pre>
          <CopyButton text={token.text as string} className="code-copy" />
        </div>
      );
    case "blockquote":
      return <blockquote>{inside(token.tokens)}</blockquote>;
    case "list": {
      const list = token as Tokens.List;
      const items = list.items.map((item, index) => (
        <li key={index} className={item.task ? "task" : undefined}>
          {item.task && <input type="checkbox" checked={item.checked ?? false} readOnly disabled aria-label={item.text} />}{inside(item.tokens.filter((each) => each.type !== "checkbox"))}
        </li>
      ));
      return list.ordered ? <ol start={Number(list.start) || 1}>{items}</ol> : <ul>{items}</ul>;
    }
    case "table": {
      const table = token as Tokens.Table;
      return (
        <table>
          <thead><tr>{table.header.map((cell, index) => <th key={index}>{inside(cell.tokens)}</th>)}</tr></thead>
          <tbody>{table.rows.map((row, index) => <tr key={index}>{row.map((cell, at) => <td key={at}>{inside(cell.tokens)}</td>)}</tr>)}</tbody>
        </table>
      );
    }
    case "link":
      return <SafeLink href={(token as Tokens.Link).href} text={(token as Tokens.Link).text}>{inside(token.tokens)}</SafeLink>;
    case "image": // never fetched
      return <SafeLink href={(token as Tokens.Image).href} text={(token as Tokens.Image).text}><SafeText text={(token as Tokens.Image).text || (token as Tokens.Image).href} /></SafeLink>;
    default: // raw HTML and anything else: as text
      return <SafeText text={token.raw} />;
  }
}

const NAMED: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };
const unescaped = (token: Tokens.Text) => (token.escaped ? token.text.replace(/&(?:amp|lt|gt|quot|#39);/g, (entity) => NAMED[entity] ?? entity) : token.text);

function SafeLink({ href, text, children }: { href: string; text: string; children: ReactNode }) {
  let url: URL | null = null;
  try {
    url = new URL(href);
  } catch {
    // a path, or no address at all
  }
  if (!url || !/^(https?|mailto):$/.test(url.protocol)) return <>{children}</>;
  const target = url.host || url.pathname; // of a mailto address
  return (
    <>
      <a href={url.href} target="_blank" rel="noopener noreferrer" title={url.href}>{children}</a>
      {!saysTarget(text, url) && <span className="text-12 text-t3"> (<SafeText text={target} />)</span>}
    </>
  );
}

/** True if a text is itself an address that leads to the same host. A text that only contains the name may lie. */
function saysTarget(text: string, url: URL): boolean {
  if (!url.host) return text === url.pathname || text === url.href;
  if (url.username || url.host.includes("xn--") || hasHidden(text)) return false; // characters of other scripts look alike
  try {
    const shown = new URL(/^https?:/.test(text) ? text : `https://${text}`);
    return shown.host === url.host && !shown.username;
  } catch {
    return false;
  }
}

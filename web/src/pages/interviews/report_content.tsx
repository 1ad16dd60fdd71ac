// The content of a report as the server sends it: headings, paragraphs and tables, with links to moments.
import { Link } from "wouter";
import { SafeText } from "../../shared/safe_text";

type Span = { text: string; path: string };
export type Block = { kind: "heading" | "paragraph" | "table"; level: number; spans: Span[]; head: string[]; rows: Span[][][] };

const LOCAL = /^\/s\/[\w-]+\/play\?at=\d+$/;

function Spans({ spans }: { spans: Span[] }) {
  return spans.map((each, index) => (LOCAL.test(each.path) ? <Link key={index} href={each.path} className="text-link underline"><SafeText text={each.text} /></Link> : <SafeText key={index} text={each.text} />));
}

export function ReportContent({ blocks }: { blocks: Block[] }) {
  return blocks.map((block, index) => <OneBlock key={index} block={block} />);
}

function OneBlock({ block }: { block: Block }) {
  const { kind, level, spans, head, rows } = block;
  if (kind === "heading") return level <= 2 ? <h2 className="print-part mt-6 border-b pb-1 text-16 font-semibold"><Spans spans={spans} /></h2> : <h3 className="mt-4 font-semibold break-words"><Spans spans={spans} /></h3>;
  if (kind === "paragraph") return <p className="mt-2 break-words whitespace-pre-wrap text-t2"><Spans spans={spans} /></p>;
  const title = spans.map((each) => each.text).join("");
  return (
    <div role="region" aria-label={title} tabIndex={0} className="mt-3 overflow-x-auto">
      <table className="w-full text-left">
        <caption className="pb-1 text-left font-semibold"><SafeText text={title} /></caption>
        <thead><tr className="text-12 text-t2">{head.map((each) => <th key={each} scope="col" className="py-1 pr-3 font-normal">{each}</th>)}</tr></thead>
        <tbody>{rows.map((row, at) => <tr key={at} className="border-t align-top">{row.map((cell, column) => <td key={column} className="max-w-md py-1 pr-3 break-words whitespace-pre-wrap"><Spans spans={cell} /></td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

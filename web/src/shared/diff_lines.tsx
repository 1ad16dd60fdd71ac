// The hunks of one file, unified. A line says its sign in words for screen readers.
import { Fragment } from "react";
import { strings } from "../strings";
import type { DiffLine, FileDiff } from "./patch_parser";
import { SafeText } from "./safe_text";

const MAX_LINES = 1500;
export const MAX_LINE_CHARS = 2000; // shown of one line

type Props = { file: FileDiff; onLine?: (line: DiffLine) => void };

export function DiffLines({ file, onLine }: Props) {
  if (file.note) return <p className="meta p-2">{strings.diff.binary}</p>;
  const total = file.hunks.reduce((count, hunk) => count + hunk.lines.length, 0);
  let left = MAX_LINES;
  return (
    <div className="overflow-x-auto font-mono text-12 leading-5" tabIndex={0} role="group" aria-label={strings.diff.of(file.path)}>
      <table className="w-full min-w-max border-collapse">
        <tbody>
          {file.hunks.map((hunk, index) => {
            const shown = hunk.lines.slice(0, Math.max(0, left));
            left -= hunk.lines.length;
            if (shown.length === 0) return null;
            return (
              <Fragment key={index}>
                {(index > 0 || hunk.header) && (
                  <tr className="bg-code text-t3"><td colSpan={3} className="h-5 px-2">{index > 0 && "⋯ "}<SafeText text={hunk.header} /></td></tr>
                )}
                {shown.map((line, at) => <Line key={at} line={line} {...(onLine ? { onLine } : {})} />)}
              </Fragment>
            );
          })}
        </tbody>
      </table>
      {total > MAX_LINES && <p className="meta p-2 font-sans">{strings.diff.more(total - MAX_LINES)}</p>}
    </div>
  );
}

const TINTS = { "+": "bg-add", "-": "bg-del", " ": "" };
const WORDS = { "+": "bg-add-word", "-": "bg-del-word", " ": "" };

function Line({ line, onLine }: { line: DiffLine; onLine?: (line: DiffLine) => void }) {
  const number = line.sign === "-" ? line.old : line.new;
  return (
    <tr className={TINTS[line.sign]}>
      <td className="w-10 px-2 text-right text-t2 select-none">
        {onLine ? <button type="button" className="w-full text-right hover:underline" aria-label={strings.diff.comment(number)} onClick={() => onLine(line)}>{number}</button> : number}
      </td>
      <td className="w-4 text-center text-t2 select-none">
        <span aria-hidden="true">{line.sign === "-" ? "−" : line.sign}</span>
        {line.sign !== " " && <span className="sr-only">{line.sign === "+" ? strings.diff.added : strings.diff.deleted}</span>}
      </td>
      <td className="pr-3 whitespace-pre text-t1">
        <LineText line={line} />
      </td>
    </tr>
  );
}

/** The text of a line with its changed words marked. A very long line is cut. */
export function LineText({ line }: { line: DiffLine }) {
  const text = line.text.slice(0, MAX_LINE_CHARS);
  const cut = line.text.length - text.length;
  return (
    <>
      {line.to > line.from && line.from < MAX_LINE_CHARS ? (
        <>
          <SafeText text={text.slice(0, line.from)} />
          <mark className={`text-t1 ${WORDS[line.sign]}`}><SafeText text={text.slice(line.from, line.to)} /></mark>
          <SafeText text={text.slice(line.to)} />
        </>
      ) : (
        <SafeText text={text} />
      )}
      {cut > 0 && <span className="ml-2 rounded-row bg-hover px-1 font-sans text-11 text-t2">{strings.diff.longLine(cut)}</span>}
    </>
  );
}

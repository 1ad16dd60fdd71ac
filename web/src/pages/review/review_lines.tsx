// The lines of one file, unified or side by side, with comments below their line. Each number is a button that comments.
import { Fragment, type ReactNode, useState } from "react";
import { Button } from "../../shared/form_controls";
import type { DiffLine, FileDiff, Hunk } from "../../shared/patch_parser";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { text } from "../../strings/review";

const STEP = 1500; // lines that are shown at once

export type Place = { side: "old" | "new"; line: number };
export const placeOf = (line: DiffLine): Place => (line.sign === "-" ? { side: "old", line: line.old } : { side: "new", line: line.new });
export const idOf = ({ side, line }: Place) => `${side === "old" ? "L" : "R"}${line}`;

type Props = { file: FileDiff; split: boolean; onLine: (place: Place) => void; below: (place: Place) => ReactNode };
type Pair = { old: DiffLine | null; new: DiffLine | null };

export function ReviewLines({ file, split, onLine, below }: Props) {
  const [shown, setShown] = useState(STEP);
  if (file.note) return <p className="meta p-2">{strings.diff.binary}</p>;
  const total = file.hunks.reduce((count, hunk) => count + hunk.lines.length, 0);
  let left = shown;
  return (
    <>
      <div className="@container overflow-x-auto font-mono text-12 leading-6" tabIndex={0} role="group" aria-label={strings.diff.of(file.path)}>
        <table className={`w-full border-collapse ${split ? "table-fixed" : "min-w-max"}`}>
          {split && <colgroup><col className="w-11" /><col /><col className="w-11" /><col /></colgroup>}
          <tbody>
            {file.hunks.map((hunk, index) => {
              const lines = hunk.lines.slice(0, Math.max(0, left));
              left -= hunk.lines.length;
              if (lines.length === 0) return null;
              return (
                <Fragment key={index}>
                  {(index > 0 || hunk.header) && <tr className="bg-code text-t3"><td colSpan={4} className="h-5 px-2">{index > 0 && "⋯ "}<SafeText text={hunk.header} /></td></tr>}
                  {split ? pairs({ ...hunk, lines }).map((pair, at) => <SplitRow key={at} pair={pair} onLine={onLine} below={below} />) : lines.map((line, at) => <UnifiedRow key={at} line={line} isFirst={isFirst(lines, at)} onLine={onLine} below={below} />)}
                </Fragment>
              );
            })}
          </tbody>
        </table>
      </div>
      {total > shown && <div className="p-2"><Button small onClick={() => setShown(shown + STEP * 4)}>{text.showMore(total - shown)}</Button></div>}
    </>
  );
}

/** True for the first line of a block of changes; n and p go there. */
const isFirst = (lines: DiffLine[], at: number) => lines[at]?.sign !== " " && (lines[at - 1]?.sign ?? " ") === " ";

function pairs(hunk: Hunk): (Pair & { isFirst: boolean })[] {
  const made: (Pair & { isFirst: boolean })[] = [];
  for (let at = 0; at < hunk.lines.length;) {
    const line = hunk.lines[at];
    if (!line) break;
    if (line.sign === " ") {
      made.push({ old: line, new: line, isFirst: false });
      at += 1;
      continue;
    }
    const block: DiffLine[] = [];
    while (hunk.lines[at] && hunk.lines[at]?.sign !== " ") block.push(hunk.lines[at++] as DiffLine);
    const [old, next] = [block.filter((each) => each.sign === "-"), block.filter((each) => each.sign === "+")];
    for (let row = 0; row < Math.max(old.length, next.length); row += 1) made.push({ old: old[row] ?? null, new: next[row] ?? null, isFirst: row === 0 });
  }
  return made;
}

const TINTS = { "+": "bg-add", "-": "bg-del", " ": "" };
const WORDS = { "+": "bg-add-word", "-": "bg-del-word", " ": "" };

// Further rows of a wrapped line begin where its text does.
const WRAPPED = "pr-2 pl-4 -indent-4 align-top whitespace-pre-wrap [overflow-wrap:anywhere] text-t1";

function Number({ place, isFirst, onLine }: { place: Place; isFirst: boolean; onLine: (place: Place) => void }) {
  return <button type="button" data-line={idOf(place)} {...(isFirst ? { "data-change": "" } : {})} className="inset-focus w-full pr-2 text-right text-t2 hover:underline" aria-label={text.commentOn(place.line)} onClick={() => onLine(place)}>{place.line}</button>;
}

function Content({ line }: { line: DiffLine }) {
  return (
    <>
      {line.sign !== " " && <span className="sr-only">{line.sign === "+" ? strings.diff.added : strings.diff.deleted}</span>}
      <span aria-hidden="true" className="inline-block w-4 indent-0 text-center text-t2 select-none">{line.sign === "-" ? "−" : line.sign === "+" ? "+" : ""}</span>
      {line.to > line.from ? <><SafeText text={line.text.slice(0, line.from)} /><mark className={`text-t1 ${WORDS[line.sign]}`}><SafeText text={line.text.slice(line.from, line.to)} /></mark><SafeText text={line.text.slice(line.to)} /></> : <SafeText text={line.text} />}
    </>
  );
}

function UnifiedRow({ line, isFirst, onLine, below }: { line: DiffLine; isFirst: boolean; onLine: Props["onLine"]; below: Props["below"] }) {
  const place = placeOf(line);
  const more = below(place);
  return (
    <>
      <tr className={TINTS[line.sign]}>
        <td className="w-11 select-none"><Number place={place} isFirst={isFirst} onLine={onLine} /></td>
        <td className="pr-3 whitespace-pre text-t1"><Content line={line} /></td>
      </tr>
      {more && <tr><td colSpan={2} className="p-0 font-sans"><div className="sticky left-0 w-[100cqw]">{more}</div></td></tr>}
    </>
  );
}

function SplitRow({ pair, onLine, below }: { pair: Pair & { isFirst: boolean }; onLine: Props["onLine"]; below: Props["below"] }) {
  const same = pair.old === pair.new;
  const more = [!same && pair.old ? below(placeOf(pair.old)) : null, pair.new ? below(placeOf(pair.new)) : null].filter(Boolean);
  const half = (line: DiffLine | null, isFirst: boolean, number: number) => (
    <>
      <td className={`select-none align-top ${line ? TINTS[line.sign] : "bg-code"}`}>{line && (number && !same ? <Number place={placeOf(line)} isFirst={isFirst} onLine={onLine} /> : <span className="block pr-2 text-right text-t2">{number}</span>)}</td>
      <td className={`${WRAPPED} ${line ? TINTS[line.sign] : "bg-code"}`}>{line && <Content line={line} />}</td>
    </>
  );
  return (
    <>
      <tr>
        {half(pair.old, pair.isFirst && pair.old !== null, pair.old?.old ?? 0)}
        {same && pair.new ? <><td className="select-none align-top"><Number place={placeOf(pair.new)} isFirst={false} onLine={onLine} /></td><td className={WRAPPED}><Content line={pair.new} /></td></> : half(pair.new, pair.isFirst && pair.old === null, pair.new?.new ?? 0)}
      </tr>
      {more.map((each, index) => <tr key={index}><td colSpan={4} className="p-0 font-sans">{each}</td></tr>)}
    </>
  );
}

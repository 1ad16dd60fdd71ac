// The markers as a list, by kind and author. Enter goes to one.
import { useMemo, useState } from "react";
import { SafeText } from "../../shared/safe_text";
import { text } from "../../strings/playback";
import { authorName } from "./timeline_event";
import { type Player, clockOf } from "./playback_position";

const MAX_SHOWN = 1000;
type Props = { player: Player; seq: number; version: number; nameOf: (by: string) => string; colourOf: (by: string) => string; go: (seq: number) => void };

export function MarkerList({ player, seq, version, nameOf, colourOf, go }: Props) {
  const { marks, axis } = player.recording;
  const [kind, setKind] = useState("");
  const [author, setAuthor] = useState("");
  const all = useMemo(() => marks.filter((each) => each.kind !== ""), [marks, version]); // eslint-disable-line react-hooks/exhaustive-deps -- the marks grow with the version
  const kinds = [...new Set(all.map((each) => each.kind))];
  const authors = [...new Set(all.map((each) => each.author))];
  const shown = all.filter((each) => (!kind || each.kind === kind) && (!author || (each.author || text.unknownAuthor) === author)).slice(0, MAX_SHOWN);
  const current = shown.findLast((each) => each.seq <= seq);
  const choice = "h-6 min-w-0 rounded-row border border-edge bg-panel px-1 text-12 text-t1 pointer-coarse:h-11";
  return (
    <>
      <div className="flex shrink-0 gap-2 border-b p-1.5">
        <select aria-label={text.kindLabel} value={kind} onChange={(event) => setKind(event.target.value)} className={choice}><option value="">{text.everyKind}</option>{kinds.map((each) => <option key={each} value={each}>{text.kinds[each]}</option>)}</select>
        <select aria-label={text.authorLabel} value={author} onChange={(event) => setAuthor(event.target.value)} className={choice}><option value="">{text.everyone}</option>{authors.map((each) => <option key={each} value={each || text.unknownAuthor}>{authorName(each, nameOf)}</option>)}</select>
      </div>
      {shown.length === 0 && <p className="p-4 text-t2">{text.noMarkers}</p>}
      <ul className="min-h-0 grow overflow-auto">
        {shown.map((mark) => (
          <li key={mark.seq}>
            <button type="button" {...(mark === current ? { "aria-current": "step" as const } : {})} onClick={() => go(mark.seq)} className={`fade inset-focus flex h-7 w-full items-center gap-2 px-3 text-left hover:bg-hover ${mark === current ? "bg-selected" : ""} ${mark.seq > seq ? "text-t3" : ""}`}>
              <span className="w-12 shrink-0 text-right text-12 tabular-nums">{clockOf(axis.positionOf(mark.seq))}</span>
              <span className="size-2 shrink-0 rounded-full" style={{ background: mark.tone === "plain" || mark.tone === "agent" ? colourOf(mark.author) : `var(--${mark.tone})` }} />
              <span className="min-w-0 grow truncate"><SafeText text={mark.label} /></span>
              <span className="meta max-w-28 truncate"><SafeText text={authorName(mark.author, nameOf)} /></span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

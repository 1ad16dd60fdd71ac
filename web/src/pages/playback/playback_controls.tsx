// The bar below the timeline: play, steps, speed, a field for a time, and the search.
import { type RefObject, useState } from "react";
import { clock } from "../../display_format";
import { Button, Field, IconButton } from "../../shared/form_controls";
import { text } from "../../strings/playback";
import { type Player, SPEEDS, clockOf, parsePlace } from "./playback_position";

type Props = { player: Player; markers: readonly number[]; words: string; setWords: (words: string) => void; hits: readonly number[]; nextHit: (by: 1 | -1) => void; search: RefObject<HTMLInputElement | null> };

export function Controls({ player, markers, words, setWords, hits, nextHit, search }: Props) {
  const { axis, entries, isLive } = player.recording;
  const [typed, setTyped] = useState("");
  return (
    <div className="mt-2 flex flex-wrap items-center gap-x-2 gap-y-1 px-3">
      <Button kind="primary" small icon={player.playing ? "pause" : "play"} aria-keyshortcuts="Space" onClick={() => player.toggle()}>{player.playing ? text.pause : text.play}</Button>
      <span className="flex">
        <IconButton icon="chevron" className="rotate-180" label={`${text.previous} ( , )`} onClick={() => player.stepEvent(-1)} />
        <IconButton icon="chevron" label={`${text.next} ( . )`} onClick={() => player.stepEvent(1)} />
      </span>
      <span className="flex">
        <IconButton icon="toStart" label={`${text.previousMarker} ( [ )`} onClick={() => player.stepMarker(-1, markers)} />
        <IconButton icon="toEnd" label={`${text.nextMarker} ( ] )`} onClick={() => player.stepMarker(1, markers)} />
      </span>
      <select aria-label={text.speed} title={`${text.speed} ( < > )`} value={player.speed} onChange={(event) => player.setSpeed(Number(event.target.value))} className="h-6 rounded-row border border-edge bg-panel px-1 text-12 text-t1 pointer-coarse:h-11">
        {(SPEEDS.includes(player.speed) ? SPEEDS : [...SPEEDS, player.speed].sort((a, b) => a - b)).map((each) => <option key={each} value={each}>{each}×</option>)}
      </select>
      <span className="text-12 whitespace-nowrap tabular-nums" data-clock>{clockOf(player.position)} / {clockOf(axis.end)}</span>
      <span className="meta whitespace-nowrap max-sm:hidden" data-event={player.seq}>{text.event(player.seq, entries.length)} · {clock(axis.timeAt(player.position))}</span>
      <form className="max-md:hidden" onSubmit={(event) => {
        event.preventDefault();
        const place = parsePlace(typed);
        if (!place) return;
        player.pause();
        if ("seq" in place) player.seekEvent(place.seq);
        else player.seek(place.ms);
        setTyped("");
      }}>
        <Field small value={typed} onChange={(event) => setTyped(event.target.value)} placeholder="1:30 · #120" aria-label={text.goToLabel} title={text.goTo} className="w-24" />
      </form>
      <span className="grow" />
      <label className="flex items-center gap-1">
        <span className="sr-only">{text.search}</span>
        <Field ref={search} small type="search" value={words} placeholder={text.searchHint} aria-keyshortcuts="/" onChange={(event) => setWords(event.target.value)} className="w-40 max-sm:w-28"
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.nativeEvent.isComposing) {
              event.preventDefault();
              nextHit(event.shiftKey ? -1 : 1);
            } else if (event.key === "Escape") {
              setWords("");
              event.currentTarget.blur();
            }
          }} />
        {words.trim().length > 1 && <span role="status" className="meta whitespace-nowrap">{text.hits(hits.filter((each) => each <= player.seq).length, hits.length)}</span>}
      </label>
      {isLive && <Button small kind={player.following ? "primary" : "plain"} title={text.liveTitle} aria-pressed={player.following} onClick={() => player.follow()}>{text.live}</Button>}
    </div>
  );
}

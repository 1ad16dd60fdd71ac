// The panes and the bar of a playback. Their content depends on one number: the event that the playback has reached.
import { type ReactNode, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { Link } from "wouter";
import { copyText } from "../../clipboard";
import { Boundary } from "../../shared/error_boundary";
import { Button } from "../../shared/form_controls";
import { SafeText } from "../../shared/safe_text";
import { isPressed } from "../../shared/shortcuts";
import { StateMark } from "../../shared/session_state_mark";
import { text } from "../../strings/playback";
import { isTyping } from "../home_keys";
import { useIsWide } from "../session/window_width_classes";
import { Compare } from "./moment_comparison";
import { Controls } from "./playback_controls";
import { Lanes, coloursOf } from "./timeline_lanes";
import { MarkerList } from "./marker_list";
import { contains } from "./timeline_event";
import { MomentEditor } from "./file_at_moment";
import { ConversationAtMoment, MomentTests } from "./conversation_at_moment";
import { MomentTerminal } from "./terminals_at_moment";
import type { Player } from "./playback_position";

const MAX_HITS = 2000;
const ADDRESS_MS = 300;
type Side = "talk" | "tests" | "markers";
type Narrow = "editor" | "terminal" | Side;
type Props = { player: Player; session: string; title: string; nameOf: (by: string) => string; isFile?: boolean };

export function Playback({ player, session, title, nameOf, isFile = false }: Props) {
  const { recording } = player;
  const version = useSyncExternalStore(recording.subscribe, () => recording.version);
  useSyncExternalStore(player.subscribe, () => player.version);
  const [withSeq, setWith] = useState(() => Math.min(Number(new URLSearchParams(location.search).get("with")) || 0, recording.entries.length));
  const [side, setSide] = useState<Side>("talk");
  const [narrow, setNarrow] = useState<Narrow>("talk");
  const [words, setWords] = useState("");
  const [copied, setCopied] = useState(false);
  const wide = useIsWide();
  const search = useRef<HTMLInputElement>(null);
  const seq = player.seq;

  useEffect(() => { // the moment in the address, once
    const at = Number(new URLSearchParams(location.search).get("at"));
    if (at > 0) player.seekEvent(at);
    else if (recording.isLive && !isFile) player.follow();
    return () => player.pause();
  }, [player, recording, isFile]);
  useEffect(() => player.catchUp(), [player, version]);
  const addressOf = useCallback((at: number) => {
    const params = new URLSearchParams({ at: String(at), ...(player.speed === 1 ? {} : { speed: String(player.speed) }), ...(withSeq ? { with: String(withSeq) } : {}) });
    return `${location.pathname}?${params.toString()}`;
  }, [player.speed, withSeq]);
  useEffect(() => { // a reload stays where it was
    if (isFile || player.playing) return;
    const timer = setTimeout(() => history.replaceState(history.state, "", player.following ? location.pathname : addressOf(seq)), ADDRESS_MS);
    return () => clearTimeout(timer);
  }, [seq, player.playing, player.following, addressOf, isFile]);

  const sought = useDeferredValue(words.trim().toLowerCase());
  const hits = useMemo(() => (sought.length < 2 ? NO_HITS : recording.entries.filter((each) => contains(each.event, sought)).slice(0, MAX_HITS).map((each) => each.seq)),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the entries grow with the version
    [sought, recording, version]);
  const markers = useMemo(() => recording.marks.filter((each) => each.kind && each.kind !== "edit" && each.kind !== "command").map((each) => each.seq),
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [recording, version]);
  const colourOf = useMemo(() => coloursOf(recording.marks),
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [recording, version]);
  const copyLink = () => void copyText(new URL(addressOf(seq), location.href).href).then(() => {
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  });
  const nextHit = (by: 1 | -1) => {
    const next = by > 0 ? hits.find((each) => each > seq) ?? hits[0] : hits.findLast((each) => each < seq) ?? hits.at(-1);
    if (next !== undefined) player.seekEvent(next);
  };
  useKeys(player, { copyLink: isFile ? () => {} : copyLink, search: () => search.current?.focus(), markers });

  const view = recording.moments.at(seq);
  const go = (to: number) => {
    player.pause();
    player.seekEvent(to);
  };
  const panes: Record<Narrow, ReactNode> = {
    editor: <Boundary what={text.editor}><MomentEditor session={session} recording={recording} seq={seq} nameOf={nameOf} colourOf={colourOf} /></Boundary>,
    terminal: <Boundary what={text.terminal}><MomentTerminal recording={recording} seq={seq} /></Boundary>,
    talk: <ConversationAtMoment view={view} seq={seq} nameOf={nameOf} go={go} />,
    tests: <MomentTests view={view} />,
    markers: <MarkerList player={player} seq={seq} version={version} nameOf={nameOf} colourOf={colourOf} go={go} />,
  };
  const tabs = (names: Narrow[], current: Narrow, choose: (name: Narrow) => void) => (
    <div role="tablist" className="flex min-h-8 shrink-0 flex-wrap items-center gap-x-1 border-b px-1">
      {names.map((name) => <button key={name} type="button" role="tab" aria-selected={name === current} onClick={() => choose(name)} className={`h-6 rounded-row px-2 text-12 whitespace-nowrap pointer-coarse:h-11 ${name === current ? "bg-selected text-t1" : "text-t2 hover:bg-hover"}`}>{text[name]}{name === "tests" && view.tests && !view.tests.running ? ` ${view.tests.ok ? "✓" : "✗"}` : ""}</button>)}
    </div>
  );
  return (
    <main className="flex h-full flex-col">
      <header className="flex h-10 shrink-0 items-center gap-3 border-b bg-panel px-3">
        {!isFile && <Link href={`/s/${session}`} className="fade flex h-6 shrink-0 items-center gap-1 rounded-row px-1.5 whitespace-nowrap text-t2 hover:bg-hover">‹ {text.back}</Link>}
        <h1 className="min-w-0 truncate text-14 font-semibold"><SafeText text={title} /></h1>
        <StateMark state={view.state} />
        <span className="grow" />
        {withSeq === 0 && <Button small kind="quiet" icon="diff" onClick={() => setWith(seq)}><span className="max-md:sr-only">{text.compare}</span></Button>}
        {!isFile && <Button small kind="quiet" icon="copy" keys="l" onClick={copyLink}><span className="max-md:sr-only" role="status">{copied ? text.linked : text.link}</span></Button>}
      </header>
      <div className="min-h-0 grow">
        {withSeq > 0 ? <Compare session={session} recording={recording} from={withSeq} to={seq} onEnd={() => setWith(0)} /> : wide ? (
          <div className="grid h-full grid-cols-[minmax(0,1fr)_minmax(360px,42%)]">
            <section aria-label={text.editor} className="min-h-0 min-w-0 border-r bg-panel">{panes.editor}</section>
            <div className="grid min-h-0 grid-rows-[2fr_3fr]">
              <section aria-label={text.terminal} className="flex min-h-0 min-w-0 flex-col overflow-hidden border-b bg-panel">{panes.terminal}</section>
              <section aria-label={text[side]} className="flex min-h-0 min-w-0 flex-col bg-panel">
                {tabs(["talk", "tests", "markers"], side, (name) => setSide(name as Side))}
                <div className="flex min-h-0 grow flex-col">{panes[side]}</div>
              </section>
            </div>
          </div>
        ) : (
          <section aria-label={text[narrow]} className="flex h-full min-h-0 flex-col bg-panel">
            {tabs(["talk", "editor", "terminal", "tests", "markers"], narrow, setNarrow)}
            <div className="flex min-h-0 grow flex-col">{panes[narrow]}</div>
          </section>
        )}
      </div>
      <section aria-label={text.timeline} className="shrink-0 border-t py-2">
        <Lanes player={player} version={version} hits={hits} withSeq={withSeq} nameOf={nameOf} colourOf={colourOf} />
        <Controls player={player} markers={markers} words={words} setWords={setWords} hits={hits} nextHit={nextHit} search={search} />
      </section>
    </main>
  );
}

const NO_HITS: number[] = [];

type Actions = { copyLink: () => void; search: () => void; markers: readonly number[] };

function useKeys(player: Player, { copyLink, search, markers }: Actions) {
  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("[role=dialog]")) return;
      const isButton = event.target instanceof HTMLElement && /^(BUTTON|A)$/.test(event.target.tagName);
      const jump = event.shiftKey ? 30_000 : 5000;
      if (isPressed(event, "play") && !isButton) player.toggle();
      else if (isPressed(event, "back") || isPressed(event, "farBack")) player.seek(player.position - jump);
      else if (isPressed(event, "forth") || isPressed(event, "farForth")) player.seek(player.position + jump);
      else if (isPressed(event, "previousEvent")) player.stepEvent(-1);
      else if (isPressed(event, "nextEvent")) player.stepEvent(1);
      else if (isPressed(event, "previousMarker")) player.stepMarker(-1, markers);
      else if (isPressed(event, "nextMarker")) player.stepMarker(1, markers);
      else if (isPressed(event, "slower")) player.changeSpeed(-1);
      else if (isPressed(event, "faster")) player.changeSpeed(1);
      else if (isPressed(event, "toStart")) player.seek(0);
      else if (isPressed(event, "toEnd")) player.seek(player.recording.axis.end);
      else if (isPressed(event, "tenth")) player.seek((player.recording.axis.end * Number(event.key)) / 10);
      else if (isPressed(event, "search")) search();
      else if (isPressed(event, "link")) copyLink();
      else return;
      event.preventDefault();
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  });
}

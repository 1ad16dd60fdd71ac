// A file as it was at a moment, with the author of each line beside it and the lines of the newest change tinted.
import { EditorState, RangeSetBuilder, StateEffect, StateField, type Extension } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, GutterMarker, gutter, highlightSpecialChars, lineNumbers } from "@codemirror/view";
import { useEffect, useMemo, useRef, useState } from "react";
import { nonce } from "../../style_nonce";
import { stepsOf } from "../../shared/line_diff";
import { ProblemLine } from "../../shared/error_message";
import { SafeText, showHidden } from "../../shared/safe_text";
import { text } from "../../strings/playback";
import { editorHighlight, editorTheme } from "../session/panels/editor_theme";
import { languageOf } from "../session/panels/editor_languages";
import { contentAt, useAuthors, useContent } from "./past_file_contents";
import type { FileVersion, Recording } from "./playback_events";
import { authorName } from "./timeline_event";

type Props = { session: string; recording: Recording; seq: number; nameOf: (by: string) => string; colourOf: (by: string) => string };

export function MomentEditor({ session, recording, seq, nameOf, colourOf }: Props) {
  const [pinned, setPinned] = useState("");
  const newest = useMemo(() => newestChange(recording, seq), [recording, seq]);
  const path = recording.files.has(pinned) ? pinned : newest?.path ?? "";
  const versions = recording.files.get(path) ?? NONE;
  const at = contentAt(versions, seq);
  const change = versions.findLast((each) => each.seq <= seq);
  const content = useContent(session, at);
  const before = useContent(session, change && change.kind !== "created" && change.kind !== "deleted" ? { seq: change.seq, version: "before" } : null);
  const authors = useAuthors(session, versions, seq, at !== null);
  const tinted = useMemo(() => (change && typeof content.data === "string" && (change.kind === "created" || typeof before.data === "string") ? changedLines(change.kind === "created" ? "" : before.data ?? "", content.data) : []), [change, content.data, before.data]);
  const paths = [...recording.files].filter(([, list]) => (list[0]?.seq ?? 0) <= seq || list[0]?.kind !== "created").map(([name]) => name).sort();
  const known = [...new Set(authors.filter(Boolean))];
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex h-8 shrink-0 items-center gap-2 border-b bg-code px-2 text-12">
        <select aria-label={text.files} value={pinned} onChange={(event) => setPinned(event.target.value)} className="h-6 max-w-[60%] min-w-0 rounded-row border border-edge bg-panel px-1 text-12 text-t1 pointer-coarse:h-11">
          <option value="">{newest && !pinned ? `${showHidden(newest.path)} (${text.following})` : text.follow}</option>
          {paths.map((each) => <option key={each} value={each}>{showHidden(each)}</option>)}
        </select>
        {change && <span className="min-w-0 truncate text-t2"><SafeText text={text.changedBy(authorName(change.by, nameOf))} /></span>}
        <span className="grow" />
        {known.map((by) => <span key={by} className="flex items-center gap-1 whitespace-nowrap text-t2 max-sm:hidden"><span className="size-2 rounded-full" style={{ background: colourOf(by) }} /><SafeText text={nameOf(by)} /></span>)}
      </div>
      {content.isError && <div className="p-2"><ProblemLine error={content.error} retry={() => void content.refetch()} /></div>}
      {!session && path ? <p className="p-4 text-t2">{text.noContents}</p>
        : !path ? <p className="m-auto p-4 text-t2">{text.noFile}</p>
        : !at ? <p className="m-auto p-4 text-t2">{change ? text.deleted : text.notYet}</p>
        : content.data === null ? <p className="m-auto p-4 text-t2">{text.binary}</p>
        : <Code key={path} path={path} content={content.data ?? ""} authors={authors} tinted={tinted} tint={colourOf(change?.by ?? "")} colourOf={colourOf} />}
    </div>
  );
}

const NONE: FileVersion[] = [];

function newestChange(recording: Recording, seq: number): FileVersion | null {
  let best: FileVersion | null = null;
  for (const list of recording.files.values()) {
    const last = list.findLast((each) => each.seq <= seq && each.kind !== "deleted");
    if (last && (!best || last.seq > best.seq)) best = last;
  }
  return best;
}

/** Line numbers of the second text, from 0, that the first does not have. */
function changedLines(before: string, after: string): number[] {
  return stepsOf(before.split("\n"), after.split("\n")).flatMap((step) => (step.sign === "+" ? [step.new] : []));
}

type Marks = { authors: string[]; tinted: number[]; tint: string };
const setMarks = StateEffect.define<Marks>();

const tints = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(old, change) {
    for (const effect of change.effects) {
      if (!effect.is(setMarks)) continue;
      const made = new RangeSetBuilder<Decoration>();
      const tint = Decoration.line({ attributes: { style: `background: color-mix(in srgb, ${effect.value.tint} 14%, transparent)` } });
      for (const line of effect.value.tinted) {
        if (line < change.state.doc.lines) made.add(change.state.doc.line(line + 1).from, change.state.doc.line(line + 1).from, tint);
      }
      return made.finish();
    }
    return old.map(change.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

const marksField = StateField.define<Marks>({
  create: () => ({ authors: [], tinted: [], tint: "" }),
  update: (old, change) => change.effects.find((each) => each.is(setMarks))?.value ?? old,
});

class AuthorBar extends GutterMarker {
  constructor(readonly colour: string) {
    super();
  }
  override eq(other: AuthorBar) {
    return other.colour === this.colour;
  }
  override toDOM() {
    const bar = document.createElement("span");
    bar.className = "block h-5 w-[3px]";
    bar.style.background = this.colour;
    return bar;
  }
}

function Code({ path, content, authors, tinted, tint, colourOf }: { path: string; content: string; authors: string[]; tinted: number[]; tint: string; colourOf: (by: string) => string }) {
  const host = useRef<HTMLDivElement>(null);
  const [view, setView] = useState<EditorView | null>(null);
  const colours = useRef(colourOf);
  useEffect(() => {
    colours.current = colourOf;
  }, [colourOf]);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    let made: EditorView | null = null;
    let ended = false;
    const bars = gutter({
      class: "w-2",
      lineMarker: (editor, line) => {
        const by = editor.state.field(marksField).authors[editor.state.doc.lineAt(line.from).number - 1];
        return by ? new AuthorBar(colours.current(by)) : null;
      },
      lineMarkerChange: (change) => change.transactions.some((each) => each.effects.some((effect) => effect.is(setMarks))),
    });
    void languageOf(path).then((language: Extension) => {
      if (ended) return;
      made = new EditorView({
        parent: element,
        state: EditorState.create({ extensions: [EditorView.cspNonce.of(nonce), EditorState.readOnly.of(true), EditorView.editable.of(false), EditorView.contentAttributes.of({ tabindex: "0", "aria-label": path }), lineNumbers(), bars, highlightSpecialChars(), marksField, tints, editorTheme, editorHighlight, language] }),
      });
      setView(made);
    });
    return () => {
      ended = true;
      made?.destroy();
    };
  }, [path]);
  useEffect(() => {
    if (!view) return;
    const now = view.state.doc.toString();
    if (now === content) return;
    let start = 0;
    while (start < now.length && start < content.length && now[start] === content[start]) start += 1;
    let end = 0;
    while (end < now.length - start && end < content.length - start && now[now.length - 1 - end] === content[content.length - 1 - end]) end += 1;
    view.dispatch({ changes: { from: start, to: now.length - end, insert: content.slice(start, content.length - end) } });
  }, [view, content]);
  useEffect(() => {
    if (!view) return;
    const first = tinted[0];
    const line = first === undefined || first >= view.state.doc.lines ? undefined : view.state.doc.line(first + 1);
    view.dispatch({ effects: [setMarks.of({ authors, tinted, tint }), ...(line ? [EditorView.scrollIntoView(line.from, { y: "center" })] : [])] });
  }, [view, content, authors, tinted, tint]);
  return <div ref={host} className="min-h-0 grow overflow-hidden" />;
}

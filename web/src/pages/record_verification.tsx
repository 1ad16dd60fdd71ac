// Opens a record file, verifies it here, and plays it back. An altered file is refused with the event that fails.
import { type DragEvent, type ReactNode, useEffect, useState } from "react";
import { Badge, Button, Field } from "../shared/form_controls";
import { Icon } from "../shared/icons";
import { ProblemLine } from "../shared/error_message";
import { SafeText } from "../shared/safe_text";
import { setPageTitle } from "../shared/page_title";
import { InvalidRecord } from "../record/canonical_json";
import { type Report, type Statement, parseReceipt, verifyRecord } from "../record/record_verifier";
import { strings } from "../strings";
import { text } from "../strings/record";
import { Playback } from "./playback/playback_panes";
import { Player } from "./playback/playback_position";
import { Recording } from "./playback/playback_events";

const MAX_FILE_BYTES = 512 * 1024 ** 2;
const MAX_LISTED = 300;
const AROUND = 20;
type Opened = { name: string; report: Report };

export function RecordPage() {
  const [file, setFile] = useState<File | null>(null);
  const [key, setKey] = useState("");
  const [receipts, setReceipts] = useState<Statement[]>([]);
  const [opened, setOpened] = useState<Opened | null>(null);
  const [checked, setChecked] = useState(-1);
  const [error, setError] = useState<unknown>(null);
  const [player, setPlayer] = useState<Player | null>(null);
  const isKey = key.trim() === "" || /^[0-9a-f]{64}$/i.test(key.trim());
  useEffect(() => {
    setPageTitle(text.title);
  }, []);
  useEffect(() => {
    if (!file || !isKey) return;
    let ended = false;
    const work = async () => {
      setError(null);
      setChecked(0);
      try {
        if (file.size > MAX_FILE_BYTES) throw new InvalidRecord(text.tooLarge);
        const content = new Uint8Array(await file.arrayBuffer());
        const report = await verifyRecord(content, {
          keys: key.trim() ? [key.trim().toLowerCase()] : [],
          receipts,
          onProgress: async (count) => {
            if (!ended) setChecked(count);
            await new Promise((resolve) => setTimeout(resolve, 0)); // the page stays alive
          },
        });
        if (!ended) setOpened({ name: file.name, report });
      } catch (failed) {
        if (!ended) setError(failed);
      } finally {
        if (!ended) setChecked(-1);
      }
    };
    void work();
    return () => {
      ended = true;
    };
  }, [file, key, isKey, receipts]);
  const take = (files: FileList | null | undefined) => {
    const first = files?.[0];
    if (!first) return;
    setOpened(null);
    setFile(first);
  };
  if (player && opened) {
    return (
      <div className="flex h-full flex-col">
        <div role="status" className="flex h-8 shrink-0 items-center gap-3 border-b bg-ok-tint px-3 text-12 text-ok"><Icon name="check" size={14} />{opened.report.pinned ? text.goodPinned : text.good}<span className="grow" /><Button small kind="quiet" onClick={() => setPlayer(null)}>{text.back}</Button></div>
        <div className="min-h-0 grow"><Playback player={player} session="" title={opened.name} nameOf={nameOf} isFile /></div>
      </div>
    );
  }
  return (
    <main className="h-full overflow-auto p-6 max-sm:p-3" onDragOver={(event: DragEvent) => event.preventDefault()} onDrop={(event: DragEvent) => {
      event.preventDefault();
      take(event.dataTransfer.files);
    }}>
      <div className="mx-auto max-w-3xl">
        <h1 className="text-20 font-semibold">{text.title}</h1>
        <p className="mt-1 text-t2">{text.about}</p>
        <div className="mt-4 rounded-card border bg-panel p-4">
          <div className="flex flex-wrap items-center gap-3">
            <label className="fade inline-flex h-8 cursor-pointer items-center gap-2 rounded-row border border-accent bg-accent px-3 font-semibold text-on-accent has-[:focus-visible]:outline-2 has-[:focus-visible]:outline-offset-1 has-[:focus-visible]:outline-focus">
              <Icon name="file" size={14} />{opened ? text.another : text.choose}
              <input type="file" accept=".zip,application/zip" className="sr-only" onChange={(event) => take(event.target.files)} />
            </label>
            <span className="text-t3">{file ? <SafeText text={file.name} /> : text.drop}</span>
          </div>
          <div className="mt-4 grid gap-3 sm:grid-cols-2">
            <label className="block text-12 text-t2">{text.key}<Field value={key} onChange={(event) => setKey(event.target.value)} spellCheck={false} aria-invalid={!isKey} aria-describedby="key-hint" className="mt-1 w-full font-mono" /><span id="key-hint" className={`mt-1 block ${isKey ? "text-t3" : "text-bad"}`}>{isKey ? text.keyHint : text.badKey}</span></label>
            <label className="block text-12 text-t2">{text.receipt}<input type="file" accept=".json,application/json" className="mt-1 block w-full text-12 file:mr-2 file:h-7 file:rounded-row file:border file:border-solid file:border-edge file:bg-panel file:px-2.5 file:text-13 file:text-t1" onChange={(event) => {
              const chosen = event.target.files?.[0];
              if (!chosen) return setReceipts([]);
              void chosen.text().then((content) => setReceipts([parseReceipt(content)])).catch(setError);
            }} /><span className="mt-1 block text-t3">{text.receiptHint}</span></label>
          </div>
        </div>
        {checked >= 0 && <p role="status" className="mt-4 text-t2">{text.checking(checked)}</p>}
        {error !== null && <div className="mt-4"><ProblemLine error={error} /></div>}
        {opened && checked < 0 && error === null && <Result {...opened} play={() => setPlayer(playerOf(opened.report))} />}
      </div>
    </main>
  );
}

const nameOf = (by: string) => (by === "agent" ? strings.session.agent : by === "hutch" || by === "" ? strings.session.hutch : by);

function playerOf(report: Report): Player {
  const recording = new Recording();
  for (const entry of report.entries) recording.add(entry);
  recording.isLoaded = true;
  return new Player(recording, 1);
}

function Result({ report, play }: Opened & { play: () => void }) {
  const time = (ms: number) => new Date(ms).toLocaleString("en-GB");
  const warnings = report.ok ? [!report.pinned && text.noKey, report.keys.length > 1 && text.manyKeys(report.keys.length), !report.ended && text.notEnded(report.events), report.erased > 0 && text.erasedSome(report.erased, report.events), report.gaps > 0 && text.gaps(report.gaps)].filter((each) => typeof each === "string") : [];
  const facts: [string, ReactNode][] = [
    [text.facts.session, <code key="session">{report.session}</code>],
    [text.facts.events, report.events.toLocaleString("en")],
    [text.facts.from, time(report.startedMs)],
    [text.facts.to, time(report.lastMs)],
    [text.facts.ended, report.ended ? text.yes : text.no],
    [text.facts.erased, report.erased || text.none],
    [text.facts.keys, <span key="keys" className="font-mono text-12 break-all">{report.keys.join(", ")}</span>],
  ];
  return (
    <>
      <div role={report.ok ? "status" : "alert"} className={`mt-4 rounded-card border p-4 ${report.ok ? "border-ok bg-ok-tint text-ok" : "border-bad bg-bad-tint text-bad"}`}>
        <p className="flex items-center gap-2 text-16 font-semibold"><Icon name={report.ok ? "check" : "cross"} />{report.ok ? (report.pinned ? text.goodPinned : text.good) : text.bad}</p>
        {!report.ok && <p className="mt-1 break-words"><SafeText text={report.problem} /></p>}
        {!report.ok && <p className="mt-1">{report.firstBad === null ? text.badFile : `${text.badAt(report.firstBad)} ${text.before(Math.min(report.events, report.firstBad - 1))}`}</p>}
      </div>
      {report.ok && (
        <>
          <div className="mt-3 flex gap-2"><Button kind="primary" icon="play" onClick={play}>{text.play}</Button></div>
          <dl className="mt-4 grid grid-cols-[max-content_1fr] gap-x-6 gap-y-1 rounded-card border bg-panel p-4">
            {facts.map(([name, value]) => <div key={name} className="contents"><dt className="text-t2">{name}</dt><dd className="min-w-0">{value}</dd></div>)}
          </dl>
        </>
      )}
      {warnings.length > 0 && (
        <section aria-label={text.warnings} className="mt-4 rounded-card border border-warn bg-warn-tint p-4 text-warn">
          <h2 className="font-semibold">{text.warnings}</h2>
          <ul className="mt-1 list-disc pl-5">{warnings.map((each) => <li key={each}>{each}</li>)}</ul>
        </section>
      )}
      <Entries report={report} />
    </>
  );
}

/** The events; of an altered record those near the place that fails. */
function Entries({ report }: { report: Report }) {
  const start = report.firstBad === null ? 0 : Math.max(0, report.firstBad - AROUND);
  const shown = report.entries.slice(start, start + MAX_LISTED);
  if (shown.length === 0 && report.firstBad === null) return null;
  return (
    <section aria-label={text.events} className="mt-4 overflow-hidden rounded-card border bg-panel">
      <h2 className="border-b bg-code px-3 py-1 text-12 font-semibold text-t2">{text.events}</h2>
      <ol>
        {shown.map((entry) => (
          <li key={entry.seq} className="flex h-6 items-center gap-3 border-b px-3 text-12 last:border-b-0">
            <span className="w-12 text-right text-t3 tabular-nums">{entry.seq}</span>
            <time className="text-t3 tabular-nums">{new Date(entry.at_ms).toLocaleTimeString("en-GB")}</time>
            <span className="min-w-0 truncate"><SafeText text={entry.event.type} /></span>
            {entry.event["erased"] === true && <Badge>{strings.session.note["erased"]}</Badge>}
            {report.firstBad !== null && entry.seq < report.firstBad && <Icon name="check" size={12} className="text-ok" />}
          </li>
        ))}
        {report.firstBad !== null && <li className="flex h-7 items-center gap-3 bg-bad-tint px-3 text-12 text-bad" data-bad={report.firstBad}><span className="w-12 text-right tabular-nums">{report.firstBad}</span><Icon name="cross" size={12} />{text.badAt(report.firstBad)}</li>}
      </ol>
    </section>
  );
}

// Two moments side by side: the files that differ, and the tests then and now.
import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import type { View } from "../../fold/view_types";
import { Added, Badge, Button } from "../../shared/form_controls";
import { DiffLines } from "../../shared/diff_lines";
import { diffTexts } from "../../shared/line_diff";
import { SafeText } from "../../shared/safe_text";
import { strings } from "../../strings";
import { text } from "../../strings/playback";
import { contentAt, load } from "./past_file_contents";
import type { Recording } from "./playback_events";

type Props = { session: string; recording: Recording; from: number; to: number; onEnd: () => void };

export function Compare({ session, recording, from, to, onEnd }: Props) {
  const [first, second] = from <= to ? [from, to] : [to, from];
  const then = useMemo(() => recording.moments.peek(first), [recording, first]);
  const now = useMemo(() => recording.moments.peek(second), [recording, second]);
  const changed = [...recording.files]
    .filter(([, list]) => list.some((each) => each.seq > first && each.seq <= second))
    .map(([path, list]) => ({ path, before: contentAt(list, first), after: contentAt(list, second) }));
  const bothSides = changed.flatMap((each) => [each.before, each.after]);
  const contents = useQueries({
    queries: bothSides.map((at) => ({ queryKey: ["content", session, at?.seq ?? 0, at?.version ?? ""], queryFn: () => (at ? load(session, at) : Promise.resolve("")), enabled: session !== "", staleTime: Infinity })),
    combine: (results) => results.map((each) => each.data),
  });
  const diffs = useMemo(() => changed.map(({ path }, index) => {
    const [before, after] = [contents[index * 2], contents[index * 2 + 1]];
    return before === undefined || after === undefined || before === null || after === null ? null : diffTexts(path, before, after);
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the files follow from the two moments
  }), [contents, first, second]);
  const shown = diffs.filter((each) => each !== null && each.hunks.length > 0);
  return (
    <section aria-label={text.comparing(first, second)} className="flex h-full min-h-0 flex-col">
      <header className="flex h-8 shrink-0 items-center gap-3 border-b bg-code px-3 text-12">
        <b>{text.comparing(first, second)}</b>
        <span className="flex items-center gap-1 text-t2">{text.testsThen} <TestsBadge view={then} /></span>
        <span className="flex items-center gap-1 text-t2">{text.testsNow} <TestsBadge view={now} /></span>
        <span className="grow" />
        <Button small kind="quiet" icon="cross" onClick={onEnd}>{text.compareEnd}</Button>
      </header>
      <div className="min-h-0 grow overflow-auto p-3">
        {!session && changed.length > 0 && <p className="text-t2">{text.noContents}</p>}
        {shown.length === 0 && (session || changed.length === 0) && contents.every((each) => each !== undefined) && <p className="text-t2">{text.noDifference}</p>}
        {shown.map((file) => file && (
          <article key={file.path} aria-label={file.path} className="mb-3 overflow-hidden rounded-card border bg-panel">
            <header className="flex h-7 items-center gap-2 border-b bg-code px-3"><code className="min-w-0 grow truncate"><SafeText oneLine text={file.path} /></code><Added added={file.added} deleted={file.deleted} /></header>
            <DiffLines file={file} />
          </article>
        ))}
      </div>
    </section>
  );
}

function TestsBadge({ view }: { view: View }) {
  const tests = view.tests;
  if (!tests) return <Badge>{text.noTestsYet}</Badge>;
  return <Badge tone={tests.running ? "info" : tests.ok ? "ok" : "bad"}>{tests.running ? strings.session.testsRunning : strings.session.failedPassed(tests.failed, tests.passed)}</Badge>;
}

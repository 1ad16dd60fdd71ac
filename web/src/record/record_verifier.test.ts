// The vectors of docs/record.md: each must get the verdict that `hutch verify` gives, and name the same event.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parseReceipt, verifyRecord } from "./record_verifier";

const DIRECTORY = new URL("../../../docs/vectors/", import.meta.url);
const read = (name: string) => new Uint8Array(readFileSync(new URL(name, DIRECTORY)));
type Verdict = { file: string; pinned: boolean; receipt: boolean; ok: boolean; first_bad: number | null; because: string };
const expected = JSON.parse(readFileSync(new URL("expected.json", DIRECTORY), "utf-8")) as { key: string; verdicts: Verdict[] };

describe("record vectors", () => {
  for (const { file, pinned, receipt, ok, first_bad, because } of expected.verdicts) {
    it(`${file}: ${because}`, async () => {
      const report = await verifyRecord(read(file), { keys: pinned ? [expected.key] : [], receipts: receipt ? [parseReceipt(new TextDecoder().decode(read("receipt.json")))] : [] });
      expect([report.ok, report.firstBad, report.problem]).toEqual([ok, first_bad, ok ? "" : report.problem || "a problem"]);
    });
  }

  it("refuses a record with any byte of its content flipped", async () => {
    const good = read("record-v1.zip");
    for (let at = 0; at < good.length; at += 37) {
      const bad = good.slice();
      bad[at] = (bad[at] ?? 0) ^ 1;
      expect((await verifyRecord(bad, { keys: [expected.key] })).ok).toBe(false);
    }
  });
});

// The texts of the page that verifies record files.
import { strings } from "../strings";

const { plural } = strings;

export const text = {
  title: "Open a record",
  about: "A record is the signed log of one session in a file. It is checked here, in your browser, and sent nowhere.",
  choose: "Choose a record file",
  drop: "or drop it here",
  another: "Open another",
  key: "Fingerprint of the key",
  keyHint: "64 hex digits, from somebody you trust. Without it, only the consistency of the record is checked.",
  badKey: "A fingerprint is 64 hex digits.",
  receipt: "Receipt",
  receiptHint: "Optional: a file that shows if the end was cut off later",
  checking: (count: number) => `Checking, ${plural(count, "event")} so far…`,
  good: "The record is good.",
  goodPinned: "The record is good, and signed by the key that you gave.",
  bad: "This record was altered, or is damaged.",
  badAt: (seq: number) => `The first event that fails is number ${seq.toLocaleString("en")}.`,
  badFile: "The fault is in the file as a whole, not in one event.",
  before: (count: number) => (count > 0 ? `${plural(count, "event")} before it ${count === 1 ? "is" : "are"} linked and unchanged, as far as the signatures reach.` : ""),
  facts: { session: "Session", events: "Events", ended: "Ended", erased: "Erased payloads", keys: "Signed by", from: "From", to: "To" },
  yes: "yes",
  no: "no",
  none: "none",
  warnings: "What this does not prove",
  noKey: "No key was given, and anybody can sign a record with a key of their own. Give the fingerprint of the installation's key, from somebody you trust.",
  manyKeys: (count: number) => `The statements are signed by ${count} keys: see that you trust them all.`,
  notEnded: (count: number) => `The session has not ended: events after ${count.toLocaleString("en")} may have been cut off. Only a receipt from later would show it.`,
  erasedSome: (erased: number, all: number) => `${erased} of ${plural(all, "payload")} were erased, by signed statement.`,
  gaps: (count: number) => `Not everything was recorded: the record says so in ${plural(count, "place")}.`,
  play: "Play it back",
  back: "Back to the result",
  events: "Events",
  tooLarge: "The file is larger than this page reads. Check it with hutch verify.",
};

// Decides whether the newest test result is outdated because files changed after it.
import type { View } from "../../fold/view_types";

export const areTestsStale = (view: View) => view.tests !== null && !view.tests.running && view.lastChange !== null && view.lastChange.seq > view.tests.seq;

// Whether the newest test result still says something about the files.
import type { View } from "../../fold/view_types";

export const areTestsStale = (view: View) => view.tests !== null && !view.tests.running && view.lastChange !== null && view.lastChange.seq > view.tests.seq;

// The title of the window. Names in it are text of others, so their hidden characters are shown.
import { strings } from "../strings";
import { showHidden } from "./safe_text";

export function setPageTitle(title: string): void {
  document.title = `${showHidden(title)} · ${strings.hutch}`; // eslint-disable-line no-restricted-properties -- here alone
}

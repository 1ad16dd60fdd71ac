// The texts about the dependencies of a repository.
import { strings } from "../strings";

const { plural } = strings;

export const text = {
  strip: "The dependencies of this repository are not installed.",
  review: "Review and install…",
  later: "Not now",
  title: "Install the dependencies of this repository?",
  summary: (commands: number, sources: string[]) => `${plural(commands, "command")} from ${sources.join(", ")} would run in a jail of their own, without access to this session.`,
  forLater: "The result is shared by later sessions of the repository. This session goes on without it.",
  show: "Show the whole commands",
  mayFail: "may fail",
  install: "Install",
  installing: "Installing…",
  installed: "Installed. Sessions that you open from now on have the dependencies.",
  failed: "They could not be installed:",
  close: "Close",
};

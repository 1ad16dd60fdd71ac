// The texts about secrets.
import { strings } from "../strings";

const { plural } = strings;

export const text = {
  about: "Values are encrypted and never shown again, to anybody. Setting one replaces it.",
  own: "Your secrets for jails",
  ownAbout: "The jail of a session gets one as a variable if you name it when you open the session: --secret NAME, or “secrets” over the API. Everybody who runs commands in that session can read it there.",
  noOwn: "You have stored none.",
  installation: "Secrets of the installation",
  installationAbout: "Keys and tokens that the server uses, and secrets for jails of owners (jail_NAME). A file, a command or an environment variable that is configured comes before the vault.",
  noInstallation: "None are set.",
  variable: "Variable",
  name: "Name",
  value: "Value",
  usedFor: "Used for",
  source: "From",
  sessions: "Open sessions",
  store: "Store",
  stored: (name: string) => `${name} is stored.`,
  shadowed: (name: string, source: string) => `${name} is stored, but it is not used: ${source} comes first.`,
  replace: "Replace",
  replaceName: (name: string) => `Replace ${name}`,
  remove: "Delete",
  removeName: (name: string) => `Delete ${name}`,
  removeTitle: (name: string) => `Delete the secret ${name}?`,
  removeDetail: "Its value cannot be brought back.",
  removeSessions: (count: number) => `${plural(count, "open session")} that ${count === 1 ? "gets" : "get"} it cannot be opened again afterwards.`,
};

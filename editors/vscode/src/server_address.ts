// The server to use, and the token for it: those of the environment, else of `hutch login`, else the server of this machine.
// Commands look in the same places: src/hutch/cli/server_address_and_token.py.
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

export type Address = { url: string; token: string; source: "sign-in" | "environment" | "login" | "local" };
type Environment = Record<string, string | undefined>;

const LOOPBACK = ["127.0.0.1", "[::1]", "localhost"];

export async function findAddress(home: string, environment: Environment): Promise<Address | null> {
  const named = environment["HUTCH_SERVER"]?.trim();
  const token = environment["HUTCH_TOKEN"]?.trim();
  const { config, data } = directories(home, environment);
  if (named && token) return { url: parseUrl(named), token, source: "environment" };
  const login = await readJson(join(config, "login.json"));
  if (login && typeof login["url"] === "string" && typeof login["token"] === "string") {
    const url = parseUrl(login["url"]);
    if (!named || parseUrl(named) === url) return { url, token: login["token"], source: "login" };
  }
  return named ? null : localServer(data);
}

/** True if the server shares this machine's files. */
export function isOnThisMachine(address: Address): boolean {
  return address.source === "local" || LOOPBACK.includes(new URL(address.url).hostname);
}

/** The address that a person typed. Throws an error with the reason if it is none. */
export function parseUrl(text: string): string {
  const typed = text.trim();
  let url: URL;
  try {
    url = new URL(typed.includes("://") ? typed : `https://${typed}`);
  } catch {
    throw new Error("This is not the address of a server. Write it like https://hutch.example.com.");
  }
  if (!["http:", "https:"].includes(url.protocol) || url.search || url.hash) {
    throw new Error("This is not the address of a server. Write it like https://hutch.example.com.");
  }
  if (url.username || url.password) throw new Error("Remove the name and the password from the address. You are asked for a token.");
  if (url.protocol === "http:" && !LOOPBACK.includes(url.hostname)) throw new Error("Use https: over http, others on the network could read your token.");
  return url.href.replace(/\/+$/, "");
}

/** The directories for settings and data. */
function directories(home: string, environment: Environment): { config: string; data: string } {
  const named = home || environment["HUTCH_HOME"] || "";
  const userHome = environment["HOME"] || homedir();
  if (named) {
    const directory = named.startsWith("~/") ? join(userHome, named.slice(2)) : named;
    return { config: directory, data: join(directory, "data") };
  }
  const directory = (variable: string, usual: string) => {
    const value = environment[variable] ?? "";
    return join(isAbsolute(value) ? value : join(userHome, usual), "hutch");
  };
  return { config: directory("XDG_CONFIG_HOME", ".config"), data: directory("XDG_DATA_HOME", ".local/share") };
}

/** The server that runs on this machine. Its process must be the one that wrote the address: another may have its port by now. */
async function localServer(data: string): Promise<Address | null> {
  const running = await readJson(join(data, "server.json"));
  if (!running || typeof running["url"] !== "string" || typeof running["pid"] !== "number" || !running["born"]) return null;
  if ((await startStamp(running["pid"])) !== running["born"]) return null;
  const token = await readFile(join(data, "keys", "local.token"), "utf8").catch(() => "");
  return token.trim() ? { url: running["url"].replace(/\/+$/, ""), token: token.trim(), source: "local" } : null;
}

/** When a process started, with the id of the boot, as the server writes it. Empty if there is no such process. */
async function startStamp(pid: number): Promise<string> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    const boot = (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
    const fields = stat.slice(stat.lastIndexOf(") ") + 2).split(" ");
    return "ZX".includes(fields[0] ?? "X") ? "" : `${boot}/${fields[19]}`;
  } catch {
    return "";
  }
}

async function readJson(path: string): Promise<Record<string, unknown> | null> {
  try {
    const found: unknown = JSON.parse(await readFile(path, "utf8"));
    return typeof found === "object" && found !== null ? (found as Record<string, unknown>) : null;
  } catch {
    return null; // there is none, or it is being written
  }
}

// The connection to one server: it is found or signed in to, is lost and comes back.
import * as vscode from "vscode";
import { Hutch, Problem, type Schemas } from "../../../clients/typescript/src/index";
import { FIND_INTERVAL_MS, REQUEST_TIMEOUT_MS } from "./limits";
import { isUnreachable } from "./problem_text";
import { type Address, findAddress, isOnThisMachine } from "./server_address";

export type ConnectionState = "searching" | "none" | "unreachable" | "refused" | "connected";
const SECRET = "hutch.server"; // address and token together: settings of a folder cannot send the token elsewhere

export class Connection implements vscode.Disposable {
  state: ConnectionState = "searching";
  address: Address | null = null;
  user: Schemas["Me"]["user"] | null = null;
  private hutch: Hutch | null = null;
  private timer: NodeJS.Timeout | undefined;
  private finding: Promise<void> | null = null;
  private isDisposed = false;
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;

  private readonly subscription: vscode.Disposable;

  constructor(private readonly secrets: vscode.SecretStorage) {
    // Another window may sign in or out.
    this.subscription = secrets.onDidChange((change) => void (change.key === SECRET && this.find()));
  }

  /** Find the server and ask it who we are. Repeated until it answers, since it may be started later. */
  async find(): Promise<void> {
    this.finding ??= this.tryToConnect().finally(() => {
      this.finding = null;
      clearTimeout(this.timer);
      if (this.state !== "connected" && !this.isDisposed) this.timer = setTimeout(() => void this.find(), FIND_INTERVAL_MS);
    });
    return this.finding;
  }

  /** Use a server from now on. Throws if it refuses the token or does not answer. */
  async signIn(address: Address): Promise<void> {
    const { user } = await whoIs(address);
    await this.secrets.store(SECRET, JSON.stringify({ url: address.url, token: address.token }));
    this.become("connected", address, user);
  }

  async signOut(): Promise<void> {
    await this.secrets.delete(SECRET);
    this.become("searching", null, null);
    await this.find();
  }

  get isSignedIn(): boolean {
    return this.address?.source === "sign-in";
  }

  get isLocal(): boolean {
    return this.address !== null && isOnThisMachine(this.address);
  }

  /** The client of the server. Throws if there is none. */
  get client(): Hutch {
    if (!this.hutch) throw new Error("No Hutch server is connected. Start one with `hutch up`, or run the command “Hutch: Sign In”.");
    return this.hutch;
  }

  async request<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await this.send(method, path, body === undefined ? undefined : JSON.stringify(body));
    return (response.status === 204 ? undefined : await response.json()) as T;
  }

  async send(method: string, path: string, body?: string, headers: Record<string, string> = {}): Promise<Response> {
    const { client } = this;
    try {
      return await client.send(method, path, body, { "Content-Type": "application/json", ...headers }, AbortSignal.timeout(REQUEST_TIMEOUT_MS));
    } catch (error) {
      if (client === this.hutch) this.judge(error);
      throw error;
    }
  }

  /** The address of a WebSocket, with the header that it needs. */
  socket(path: string): { url: string; headers: Record<string, string> } {
    const { address } = this;
    if (!address) throw new Error("No Hutch server is connected.");
    return { url: `${address.url.replace(/^http/, "ws")}${path}`, headers: { Authorization: `Bearer ${address.token}` } };
  }

  dispose(): void {
    this.isDisposed = true;
    clearTimeout(this.timer);
    this.subscription.dispose();
    this.changed.dispose();
  }

  private async tryToConnect(): Promise<void> {
    const address = (await this.storedAddress()) ?? (await findAddress(homeSetting(), process.env).catch(() => null));
    if (!address) return this.become("none", null, null);
    try {
      const { user } = await whoIs(address);
      this.become("connected", address, user);
    } catch (error) {
      this.become(error instanceof Problem && error.status === 401 ? "refused" : "unreachable", address, null);
    }
  }

  private async storedAddress(): Promise<Address | null> {
    const stored = await this.secrets.get(SECRET);
    if (!stored) return null;
    const { url, token } = JSON.parse(stored) as { url: string; token: string };
    return { url, token, source: "sign-in" };
  }

  private judge(error: unknown): void {
    if (error instanceof Problem && error.status === 401) this.become("refused", this.address, null);
    else if (isUnreachable(error)) this.become("unreachable", this.address, null);
    else return;
    void this.find();
  }

  private become(state: ConnectionState, address: Address | null, user: Schemas["Me"]["user"] | null): void {
    const isSame = state === this.state && address?.url === this.address?.url && address?.token === this.address?.token;
    if (isSame || this.isDisposed) return;
    this.state = state;
    this.address = address;
    this.user = user;
    this.hutch = address && state === "connected" ? new Hutch(address.url, address.token) : null;
    void vscode.commands.executeCommand("setContext", "hutch.state", state);
    void vscode.commands.executeCommand("setContext", "hutch.signedIn", this.isSignedIn);
    this.changed.fire();
  }
}

const homeSetting = (): string => vscode.workspace.getConfiguration("hutch").get<string>("home", "");

async function whoIs(address: Address): Promise<Schemas["Me"]> {
  return new Hutch(address.url, address.token).json<Schemas["Me"]>("GET", "/me", undefined, AbortSignal.timeout(REQUEST_TIMEOUT_MS));
}

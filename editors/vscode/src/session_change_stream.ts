// One stream over all sessions that the user may see. It reports that a session has changed; listeners request the new state.
import WebSocket from "ws";
import { MAX_FRAME_BYTES, RETRY_MS } from "./limits";

const QUERY = "subscription { sessions { id state removed } }";

export class SessionChanges {
  private socket: WebSocket | null = null;
  private timer: NodeJS.Timeout | undefined;
  private attempts = 0;
  private isClosed = false;

  constructor(private readonly target: { url: string; headers: Record<string, string> }, private readonly changed: () => void) {
    this.connect();
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }

  private connect(): void {
    const socket = new WebSocket(this.target.url, "graphql-transport-ws", { headers: this.target.headers, maxPayload: MAX_FRAME_BYTES });
    this.socket = socket;
    socket.on("open", () => socket.send('{"type":"connection_init"}'));
    socket.on("message", (data) => this.receive(socket, String(data)));
    socket.on("error", () => undefined); // "close" follows
    socket.on("close", () => {
      if (this.isClosed) return;
      this.changed(); // the request tells whether the server is gone
      this.timer = setTimeout(() => this.connect(), RETRY_MS[Math.min(this.attempts, RETRY_MS.length - 1)]);
      this.attempts += 1;
    });
  }

  private receive(socket: WebSocket, text: string): void {
    const frame = JSON.parse(text) as { type: string };
    if (frame.type === "connection_ack") {
      socket.send(JSON.stringify({ id: "1", type: "subscribe", payload: { query: QUERY } }));
      this.attempts = 0;
      this.changed(); // what changed before
    } else if (frame.type === "ping") socket.send('{"type":"pong"}');
    else if (frame.type === "next") this.changed();
    else if (frame.type === "error" || frame.type === "complete") socket.close();
  }
}

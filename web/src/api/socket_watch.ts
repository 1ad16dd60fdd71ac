// Finds connections that have died without a word, such as those of a machine that slept or changed its network. The browser
// may not notice that for minutes, and the page would say that it is live.
const CHECK_MS = 5000;
const QUIET_MS = 20_000; // the server sends a heartbeat every 15 s on most sockets
const ANSWER_MS = 10_000;
const DEAD = 4408; // as when the server asks to connect again at once

/** Ping a socket on which nothing has come for a while. If no answer comes, its `onclose` is called. */
export function watchSocket(socket: WebSocket, ping: () => void): void {
  let receivedMs = Date.now();
  let pingedMs = 0;
  const noteMessage = () => {
    receivedMs = Date.now();
    pingedMs = 0;
  };
  const timer = setInterval(() => {
    const now = Date.now();
    if (pingedMs > 0 && now - pingedMs >= ANSWER_MS) return end();
    if (pingedMs > 0 || now - receivedMs < QUIET_MS) return;
    pingedMs = now;
    if (socket.readyState === WebSocket.OPEN) ping(); // else it still connects: then there is no answer either
  }, CHECK_MS);
  const end = () => {
    clearInterval(timer);
    const { onclose } = socket;
    socket.onclose = socket.onmessage = null;
    socket.close();
    onclose?.call(socket, new CloseEvent("close", { code: DEAD }));
  };
  socket.addEventListener("open", noteMessage);
  socket.addEventListener("message", noteMessage);
  socket.addEventListener("close", () => clearInterval(timer));
}

type Connected = { connection: { status: string }; subscribe: (listener: () => void) => () => void };

/** Call `then` whenever a stream is live again: the server is back, so other sockets need not wait longer. */
export function onReturn(stream: Connected, then: () => void): () => void {
  let before = stream.connection.status;
  return stream.subscribe(() => {
    const { status } = stream.connection;
    const isBack = status === "live" && before !== "live";
    before = status;
    if (isBack) then();
  });
}

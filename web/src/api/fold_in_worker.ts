// A long log, folded in a worker of its own that ends with its work.
import type { Folded, Order } from "../fold/whole_log";

/** Start folding. Returns a function that cancels it. */
export function foldInWorker(order: Order, then: (folded: Folded) => void): () => void {
  const worker = new Worker(new URL("../fold/whole_log_worker.ts", import.meta.url), { type: "module" });
  worker.onmessage = (message: MessageEvent<Folded>) => {
    worker.terminate();
    then(message.data);
  };
  worker.onerror = (event) => {
    worker.terminate();
    then({ problem: event.message });
  };
  worker.postMessage(order);
  return () => worker.terminate();
}

import { type Folded, type Order, foldWholeLog } from "./whole_log";

const page = self as unknown as Worker;
page.onmessage = (message: MessageEvent<Order>) => {
  foldWholeLog(message.data).then(
    (folded) => page.postMessage(folded),
    (error: unknown) => page.postMessage({ problem: String(error) } satisfies Folded),
  );
};

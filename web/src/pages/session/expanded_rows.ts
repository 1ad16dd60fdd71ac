// Expanded rows of the conversation. A row stays expanded while it is scrolled away and back.
import { useState } from "react";

const chosen = new Map<string, boolean>();

export function useOpen(id: string, initially: boolean): [boolean, () => void] {
  const [, renew] = useState(0);
  const open = chosen.get(id) ?? initially;
  return [open, () => {
    chosen.set(id, !open);
    renew((count) => count + 1);
  }];
}

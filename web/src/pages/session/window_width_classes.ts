// Classes of window width: phone, wide, roomy.
import { useSyncExternalStore } from "react";

function watch(query: string) {
  const subscribe = (listener: () => void) => {
    const media = matchMedia(query);
    media.addEventListener("change", listener);
    return () => media.removeEventListener("change", listener);
  };
  return () => useSyncExternalStore(subscribe, () => matchMedia(query).matches);
}

/** True if there is room for the work beside the conversation. */
export const useIsWide = watch("(min-width: 1024px)");
/** True if there is room for a side column beside the editor. */
export const useIsRoomy = watch("(min-width: 1600px)");
/** True if there is room for one part of the work only. */
export const useIsPhone = watch("(max-width: 639px)");

// Ctrl+. on any page goes to the session that has waited longest for a person, and into its card.
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useLocation } from "wouter";
import { type Schemas, get } from "../api/http_client";
import { strings } from "../strings";
import { waitingSessions } from "./waiting_sessions";

const SHOWN_MS = 3000;

/** Returns the text to announce if no session waits for a person. */
export function useNeedsMe(): string {
  const [, go] = useLocation();
  const queries = useQueryClient();
  const [message, say] = useState("");
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    function onKey(event: KeyboardEvent) {
      if (event.key !== "." || !(event.ctrlKey || event.metaKey) || event.defaultPrevented || document.querySelector("[data-ask]")) return;
      event.preventDefault();
      void queries.fetchQuery({ queryKey: ["sessions", "waiting"], staleTime: 0, queryFn: () => get<Schemas["SessionPage"]>("/sessions?interviews=false&state=waiting&limit=50") }).then((page) => {
        const oldest = waitingSessions(page.items).toSorted((a, b) => a.updated_ms - b.updated_ms)[0];
        if (oldest) return go(`/s/${oldest.id}`, { state: { toCard: true } });
        say(strings.approval.nothing);
        clearTimeout(timer);
        timer = setTimeout(() => say(""), SHOWN_MS);
      }, () => say(strings.error.offline));
    }
    window.addEventListener("keydown", onKey);
    return () => {
      clearTimeout(timer);
      window.removeEventListener("keydown", onKey);
    };
  }, [go, queries]);
  return message;
}

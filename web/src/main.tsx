import "./style_nonce";
import "./theme.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Problem } from "./api/http_client";
import { App } from "./app";
import { Boundary } from "./shared/error_boundary";

const MAX_STARTING_RETRIES = 120;
const STARTING_RETRY_MS = 500;
const isStarting = (error: unknown) => error instanceof Problem && error.status === 409;

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      // A refusal is final. A server that could not be reached, or a session that is still starting, is asked again.
      retry: (count, error) => (isStarting(error) ? count < MAX_STARTING_RETRIES : count < 2 && (!(error instanceof Problem) || error.status === 0 || error.status >= 502)),
      retryDelay: (count, error) => (isStarting(error) ? STARTING_RETRY_MS : Math.min(1000 * 2 ** count, 30_000)),
    },
  },
});

// A new build was installed while this page was open: its files have other names now.
window.addEventListener("vite:preloadError", () => {
  const build = document.querySelector<HTMLScriptElement>("script[type=module]")?.src ?? "";
  if (sessionStorage.getItem("hutch.reloaded") === build) return;
  const reload = () => {
    sessionStorage.setItem("hutch.reloaded", build);
    location.reload();
  };
  fetch("/", { cache: "no-store" }).then(reload, () => {}); // a server that is away would leave no page at all
});

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <Boundary>
        <QueryClientProvider client={queries}>
          <App />
        </QueryClientProvider>
      </Boundary>
    </StrictMode>,
  );
}

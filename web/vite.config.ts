import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `HUTCH_URL=http://127.0.0.1:8484 npm run dev` shows changes at once; the policy of a real server is not in force there.
export default defineConfig({
  plugins: [react(), tailwindcss()],
  html: { cspNonce: "__NONCE__" },
  build: {
    outDir: "../src/hutch/web",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/api": { target: process.env["HUTCH_URL"] ?? "http://127.0.0.1:8484", ws: true } } },
});

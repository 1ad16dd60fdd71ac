// A timer that browsers do not slow down while the page is in the background.
const EVERY_MS = 5000;
setInterval(() => postMessage("beat"), EVERY_MS);

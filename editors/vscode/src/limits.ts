// Limits of requests, waits and displayed texts of the extension.
export const MAX_NOTICE_CHARS = 240;
export const MAX_LABEL_CHARS = 120;
export const MAX_SESSIONS = 100;
export const MAX_FILES = 300; // of a session, in the tree
export const MAX_FILE_BYTES = 8 << 20; // of one side of a diff
export const MAX_SELECTION_CHARS = 100_000;
export const MAX_FRAME_BYTES = 16 << 20;
export const REQUEST_TIMEOUT_MS = 60_000;
export const DECISION_TIMEOUT_MS = 20_000;
export const FIND_INTERVAL_MS = 3000;
export const COST_INTERVAL_MS = 3000;
export const BEHIND_MS = 1000;
export const RETRY_MS = [250, 500, 1000, 2000, 4000, 8000];

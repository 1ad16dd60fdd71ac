// Ranks texts by their match with typed words: entries that begin with them first, scattered characters last.

const NO_MATCH = 4;

/** 0: the text begins with the words; 1: one of its words does; 2: it contains them; 3: their characters occur in this order. */
export function matchRank(text: string, words: string): number {
  const [lower, typed] = [text.toLowerCase(), words.toLowerCase().trim()];
  if (lower.startsWith(typed)) return 0;
  const at = lower.indexOf(typed);
  if (at > 0) return [...lower.matchAll(/(?<![\p{L}\p{N}])[\p{L}\p{N}]/gu)].some((start) => lower.startsWith(typed, start.index)) ? 1 : 2;
  return isSubsequence(lower, typed.replaceAll(" ", "")) ? 3 : NO_MATCH;
}

/** The entries that match, best first; entries of the same rank keep their order. */
export function ranked<T>(entries: readonly T[], words: string, textOf: (entry: T) => string): T[] {
  return entries
    .map((entry) => ({ entry, rank: matchRank(textOf(entry), words) }))
    .filter(({ rank }) => rank < NO_MATCH)
    .sort((a, b) => a.rank - b.rank)
    .map(({ entry }) => entry);
}

function isSubsequence(text: string, characters: string): boolean {
  let at = 0;
  for (const char of characters) {
    at = text.indexOf(char, at) + 1;
    if (at === 0) return false;
  }
  return true;
}

// The glob that finds files by the typed parts of their path.

const SPECIAL = /[[\]*?{}\\!,^]/;

/** `api app` and `api/app` find `src/api/app.py`; `api` finds everything below `src/api`, too. Case does not matter. */
export function pathPattern(words: string): string {
  const steps = words.trim().split("/").filter(Boolean).map((step) => `*${step.trim().split(/\s+/).map((part) => [...part].map(oneCharacter).join("")).join("**")}*`);
  if (steps.length === 0) return "**/*";
  const path = `**/${steps.join("/**/")}`;
  return `{${path},${path}/**/*}`;
}

function oneCharacter(char: string): string {
  if (SPECIAL.test(char)) return `\\${char}`;
  const [lower, upper] = [char.toLowerCase(), char.toUpperCase()];
  return lower !== upper && lower.length === 1 && upper.length === 1 ? `[${lower}${upper}]` : char;
}

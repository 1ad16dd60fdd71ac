// The chosen theme is a cookie, which the server writes into the page before anything is painted.
export type Theme = "auto" | "light" | "dark";

export function currentTheme(): Theme {
  const chosen = document.documentElement.dataset["theme"];
  return chosen === "light" || chosen === "dark" ? chosen : "auto";
}

export function setTheme(theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
  const age = theme === "auto" ? 0 : 31_536_000;
  document.cookie = `hutch_theme=${theme}; path=/; max-age=${age}; samesite=lax`;
  window.dispatchEvent(new Event("hutch:theme"));
}

export function isDark(): boolean {
  const theme = currentTheme();
  return theme === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
}

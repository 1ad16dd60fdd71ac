// Text that was typed and not sent. It survives reloads and crashes, and tabs share it.
export const readDraft = (name: string) => localStorage.getItem(`hutch.draft.${name}`) ?? "";

export function keepDraft(name: string, text: string): void {
  if (text) localStorage.setItem(`hutch.draft.${name}`, text);
  else localStorage.removeItem(`hutch.draft.${name}`);
}

// Copying, also on a plain http address of a local network, where browsers offer no clipboard.
export async function copyText(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // refused by the browser: the old way may work
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  area.className = "fixed top-0 opacity-0";
  document.body.append(area);
  const focused = document.activeElement;
  area.select();
  // An open menu takes the focus back at once, and with it the selection: the text is given to the event itself.
  const give = (event: ClipboardEvent) => {
    event.clipboardData?.setData("text/plain", text);
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  document.addEventListener("copy", give, { capture: true });
  const copied = document.execCommand("copy");
  document.removeEventListener("copy", give, { capture: true });
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return copied;
}

/** The words of a text in their order: letters and digits, in lower case. */
export function words(text) {
  return text.toLowerCase().match(/[a-z0-9]+/g) ?? [];
}

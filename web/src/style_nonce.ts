// Libraries that add a <style> at run time do not know the nonce of this page, so every style element gets it when made.
// This module is imported first.
import { setNonce } from "get-nonce";

const meta = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]");
export const nonce = meta?.nonce ?? "";

setNonce(nonce);
const create = document.createElement.bind(document);
document.createElement = ((name: string, options?: ElementCreationOptions) => {
  const element = create(name, options);
  if (name.toLowerCase() === "style") element.setAttribute("nonce", nonce);
  return element;
}) as typeof document.createElement;

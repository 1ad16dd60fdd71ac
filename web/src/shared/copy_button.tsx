// A button that copies a text, and says whether that worked.
import { useEffect, useState } from "react";
import { copyText } from "../clipboard";
import { strings } from "../strings";
import { Button } from "./form_controls";

const SHOWN_MS = 2000;

export function CopyButton({ text, label = strings.session.copy, className = "" }: { text: string | (() => string); label?: string; className?: string }) {
  const [result, setResult] = useState<boolean | null>(null);
  useEffect(() => {
    if (result === null) return;
    const timer = setTimeout(() => setResult(null), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [result]);
  return (
    <Button kind="quiet" icon={result ? "check" : "copy"} small className={className} onClick={() => void copyText(typeof text === "string" ? text : text()).then(setResult)}>
      <span aria-live="off">{result === null ? label : result ? strings.session.copied : strings.session.notCopied}</span>
    </Button>
  );
}

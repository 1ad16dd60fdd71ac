// Buttons, fields and small marks that every page uses.
import { type ButtonHTMLAttributes, type InputHTMLAttributes, type ReactNode, forwardRef } from "react";
import { Icon, type IconName } from "./icons";
import { showHidden } from "./safe_text";

type Kind = "plain" | "primary" | "quiet" | "danger";
const KINDS: Record<Kind, string> = {
  plain: "border border-edge bg-panel text-t1 hover:bg-hover",
  primary: "border border-accent bg-accent text-on-accent font-semibold hover:opacity-90",
  quiet: "text-t2 hover:bg-hover hover:text-t1",
  danger: "border border-bad text-bad bg-panel hover:bg-bad-tint",
};

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { kind?: Kind; icon?: IconName; keys?: string; small?: boolean };

export const Button = forwardRef<HTMLButtonElement, ButtonProps>(function Button(
  { kind = "plain", icon, keys, small = false, children, className = "", type = "button", ...rest },
  ref,
) {
  return (
    <button ref={ref} type={type} {...(keys ? { "aria-keyshortcuts": keys } : {})} className={`fade inline-flex shrink-0 items-center gap-1.5 rounded-row text-13 whitespace-nowrap select-none disabled:opacity-50 pointer-coarse:h-11 ${small ? "h-6 px-2" : "h-7 px-2.5"} ${KINDS[kind]} ${className}`} {...rest}>
      {icon && <Icon name={icon} size={14} />}
      {children}
      {keys && <Keys keys={keys} onAccent={kind === "primary"} />}
    </button>
  );
});

type IconButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { icon: IconName; label: string; size?: number };

export const IconButton = forwardRef<HTMLButtonElement, IconButtonProps>(function IconButton(
  { icon, label, size = 16, className = "", ...rest },
  ref,
) {
  return (
    <button ref={ref} type="button" aria-label={label} title={showHidden(label)} className={`fade inline-flex size-6 shrink-0 items-center justify-center rounded-row text-t3 hover:bg-hover hover:text-t1 disabled:opacity-50 pointer-coarse:size-11 ${className}`} {...rest}>
      <Icon name={icon} size={size} />
    </button>
  );
});

export const Field = forwardRef<HTMLInputElement, InputHTMLAttributes<HTMLInputElement> & { small?: boolean }>(function Field({ className = "", small = false, ...rest }, ref) {
  return <input ref={ref} className={`${small ? "h-6 text-12" : "h-7 text-13"} min-w-0 rounded-row border border-edge bg-panel px-2 text-t1 text-ellipsis pointer-coarse:h-11 ${className}`} {...rest} />;
});

export function Keys({ keys, onAccent = false }: { keys: string; onAccent?: boolean }) {
  return <kbd aria-hidden="true" className={`text-11 pointer-coarse:hidden ${onAccent ? "opacity-80" : "rounded-row border border-line px-1 text-t3"}`}>{keys}</kbd>;
}

/** A few words, as a mark: their colour says the state again, never alone. */
export function Badge({ tone = "none", children }: { tone?: "none" | "ok" | "warn" | "bad" | "info" | "agent"; children: ReactNode }) {
  const tones = { none: "bg-hover text-t2", ok: "bg-ok-tint text-ok", warn: "bg-warn-tint text-warn", bad: "bg-bad-tint text-bad", info: "bg-info-tint text-info", agent: "bg-agent-tint text-agent" };
  return <span className={`inline-flex h-4 items-center rounded-row px-1 text-11 whitespace-nowrap ${tones[tone]}`}>{children}</span>;
}

export function Added({ added, deleted }: { added: number; deleted: number }) {
  return (
    <span className="whitespace-nowrap text-12">
      <span className="text-ok">+{added}</span> <span className="text-bad">−{deleted}</span>
    </span>
  );
}

// The edge between two panels: dragged, or moved by arrow keys. Sizes are remembered.
import { type PointerEvent, useCallback, useEffect, useState } from "react";

export function useSize(name: string, initial: number): [number, (size: number) => void] {
  const [size, setSize] = useState(() => Number(localStorage.getItem(`hutch.size.${name}`) ?? initial) || initial);
  const set = useCallback((value: number) => {
    setSize(value);
    localStorage.setItem(`hutch.size.${name}`, String(value));
  }, [name]);
  return [size, set];
}

/** True while a part is folded away or fills its place, and functions that turn that over and end it. Remembered. */
export function useFlag(name: string): [boolean, () => void, () => void] {
  const key = `hutch.flag.${name}`;
  const [isSet, set] = useState(() => localStorage.getItem(key) === "yes");
  useEffect(() => {
    if (isSet) localStorage.setItem(key, "yes");
    else localStorage.removeItem(key);
  }, [key, isSet]);
  return [isSet, useCallback(() => set((before) => !before), []), useCallback(() => set(false), [])];
}

type Props = { label: string; size: number; min: number; max: number; onSize: (size: number) => void; vertical?: boolean; from?: "start" | "end"; collapse?: () => void };

export function Splitter({ label, size, min, max, onSize, vertical = false, from = "start", collapse }: Props) {
  const sign = from === "start" ? 1 : -1;
  const clamp = (value: number) => Math.round(Math.max(min, Math.min(max, value)));
  useEffect(() => {
    if (size > max && max >= min) onSize(max);
  }, [size, max, min, onSize]);
  function drag(event: PointerEvent<HTMLDivElement>) {
    event.preventDefault();
    const element = event.currentTarget;
    const start = vertical ? event.clientY : event.clientX;
    element.setPointerCapture(event.pointerId);
    const move = (moved: globalThis.PointerEvent) => onSize(clamp(size + sign * ((vertical ? moved.clientY : moved.clientX) - start)));
    const up = () => {
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerup", up);
    };
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", up);
  }
  const keys: Record<string, number> = vertical ? { ArrowUp: -24, ArrowDown: 24 } : { ArrowLeft: -24, ArrowRight: 24 };
  return (
    <div role="separator" tabIndex={0} aria-label={label} aria-orientation={vertical ? "horizontal" : "vertical"} aria-valuenow={size} aria-valuemin={min} aria-valuemax={max} onPointerDown={drag} onDoubleClick={collapse}
      onKeyDown={(event) => {
        if (event.key === "Enter") return collapse?.();
        const step = keys[event.key];
        if (step === undefined) return;
        event.preventDefault();
        onSize(clamp(size + sign * step));
      }}
      className={`fade relative z-10 shrink-0 bg-line hover:bg-accent focus-visible:bg-accent ${vertical ? "h-px cursor-row-resize after:absolute after:inset-x-0 after:-top-1 after:h-2" : "w-px cursor-col-resize after:absolute after:inset-y-0 after:-left-1 after:w-2"}`} />
  );
}

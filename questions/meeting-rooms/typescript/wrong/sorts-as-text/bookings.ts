export type Booking = [number, number];

/** Sorts with the default order, which compares numbers as text. */
export function mergeBookings(bookings: Booking[]): Booking[] {
  const merged: Booking[] = [];
  for (const [start, end] of [...bookings].sort()) {
    if (end < start) throw new RangeError("a booking ends before it begins");
    if (start === end) continue;
    const last = merged.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  return merged;
}

/** The free times of the day that last at least so many minutes, in order. */
export function freeSlots(bookings: Booking[], dayStart: number, dayEnd: number, minutes: number): Booking[] {
  const slots: Booking[] = [];
  let freeFrom = dayStart;
  for (const [start, end] of [...mergeBookings(bookings), [dayEnd, dayEnd]]) {
    const freeTo = Math.min(start, dayEnd);
    if (freeTo > freeFrom && freeTo - freeFrom >= minutes) slots.push([freeFrom, freeTo]);
    freeFrom = Math.max(freeFrom, end);
  }
  return slots;
}

/** Takes the end of the last booking, also if an earlier one ends later. */
export function mergeBookings(bookings) {
  const merged = [];
  for (const [start, end] of [...bookings].sort((one, other) => one[0] - other[0])) {
    if (end < start) throw new RangeError("a booking ends before it begins");
    if (start === end) continue;
    const last = merged.at(-1);
    if (last && start <= last[1]) last[1] = end;
    else merged.push([start, end]);
  }
  return merged;
}

/** The free times of the day that last at least so many minutes, in order. */
export function freeSlots(bookings, dayStart, dayEnd, minutes) {
  const slots = [];
  let freeFrom = dayStart;
  for (const [start, end] of [...mergeBookings(bookings), [dayEnd, dayEnd]]) {
    const freeTo = Math.min(start, dayEnd);
    if (freeTo > freeFrom && freeTo - freeFrom >= minutes) slots.push([freeFrom, freeTo]);
    freeFrom = Math.max(freeFrom, end);
  }
  return slots;
}

/** Right, but compares each booking with all that were merged before. */
export function mergeBookings(bookings) {
  let merged = [];
  for (let [start, end] of bookings) {
    if (end < start) throw new RangeError("a booking ends before it begins");
    if (start === end) continue;
    const apart = [];
    for (const other of merged) {
      if (other[1] < start || end < other[0]) {
        apart.push(other);
      } else {
        start = Math.min(start, other[0]);
        end = Math.max(end, other[1]);
      }
    }
    merged = [...apart, [start, end]];
  }
  return merged.sort((one, other) => one[0] - other[0]);
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

// The times at which a meeting room is taken and free, in minutes of the day.

export type Booking = [number, number];

/** The times at which the room is taken, as few as possible, in order. */
export function mergeBookings(bookings: Booking[]): Booking[] {
  throw new Error("not written yet");
}

/** The free times of the day that last at least so many minutes, in order. */
export function freeSlots(bookings: Booking[], dayStart: number, dayEnd: number, minutes: number): Booking[] {
  throw new Error("not written yet");
}

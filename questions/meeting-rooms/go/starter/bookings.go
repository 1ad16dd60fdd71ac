// Package bookings finds the times at which a meeting room is taken and free, in minutes of the day.
package bookings

// A Booking is a start and an end; the end is not included.
type Booking [2]int

// MergeBookings returns the times at which the room is taken, as few as possible, in order.
func MergeBookings(bookings []Booking) ([]Booking, error) {
	panic("not written yet")
}

// FreeSlots returns the free times of the day that last at least so many minutes, in order.
func FreeSlots(bookings []Booking, dayStart, dayEnd, minutes int) ([]Booking, error) {
	panic("not written yet")
}

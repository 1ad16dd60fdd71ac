// Package bookings finds the times at which a meeting room is taken and free, in minutes of the day.
package bookings

import (
	"fmt"
	"sort"
)

// A Booking is a start and an end; the end is not included.
type Booking [2]int

// MergeBookings is right, but compares each booking with all that were merged before.
func MergeBookings(bookings []Booking) ([]Booking, error) {
	merged := []Booking{}
	for _, each := range bookings {
		if each[1] < each[0] {
			return nil, fmt.Errorf("a booking ends before it begins")
		}
		if each[0] == each[1] {
			continue
		}
		apart := []Booking{}
		for _, other := range merged {
			if other[1] < each[0] || each[1] < other[0] {
				apart = append(apart, other)
			} else {
				each = Booking{min(each[0], other[0]), max(each[1], other[1])}
			}
		}
		merged = append(apart, each)
	}
	sort.Slice(merged, func(i, j int) bool { return merged[i][0] < merged[j][0] })
	return merged, nil
}

// FreeSlots returns the free times of the day that last at least so many minutes, in order.
func FreeSlots(bookings []Booking, dayStart, dayEnd, minutes int) ([]Booking, error) {
	taken, err := MergeBookings(bookings)
	if err != nil {
		return nil, err
	}
	slots := []Booking{}
	freeFrom := dayStart
	for _, each := range append(taken, Booking{dayEnd, dayEnd}) {
		freeTo := min(each[0], dayEnd)
		if freeTo > freeFrom && freeTo-freeFrom >= minutes {
			slots = append(slots, Booking{freeFrom, freeTo})
		}
		freeFrom = max(freeFrom, each[1])
	}
	return slots, nil
}

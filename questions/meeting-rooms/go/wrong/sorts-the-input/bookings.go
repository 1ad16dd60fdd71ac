// Package bookings finds the times at which a meeting room is taken and free, in minutes of the day.
package bookings

import (
	"fmt"
	"sort"
)

// A Booking is a start and an end; the end is not included.
type Booking [2]int

// MergeBookings sorts the given list itself, and forgets ends that lie inside.
func MergeBookings(bookings []Booking) ([]Booking, error) {
	sort.Slice(bookings, func(i, j int) bool { return bookings[i][0] < bookings[j][0] })
	merged := []Booking{}
	for _, each := range bookings {
		if each[1] < each[0] {
			return nil, fmt.Errorf("a booking ends before it begins")
		}
		if each[0] == each[1] {
			continue
		}
		if last := len(merged) - 1; last >= 0 && each[0] <= merged[last][1] {
			merged[last][1] = max(merged[last][1], each[1])
		} else {
			merged = append(merged, each)
		}
	}
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

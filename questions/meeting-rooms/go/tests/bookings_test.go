package bookings

import (
	"reflect"
	"testing"
)

func TestOverlappingAndTouchingBookingsBecomeOne(t *testing.T) {
	got, err := MergeBookings([]Booking{{540, 600}, {570, 630}, {700, 720}, {630, 640}})
	want := []Booking{{540, 640}, {700, 720}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestTheGivenListIsNotChanged(t *testing.T) {
	bookings := []Booking{{20, 30}, {10, 25}}
	if _, err := MergeBookings(bookings); err != nil {
		t.Fatal(err)
	}
	if want := []Booking{{20, 30}, {10, 25}}; !reflect.DeepEqual(bookings, want) {
		t.Errorf("the list became %v", bookings)
	}
}

func TestABookingCannotEndBeforeItBegins(t *testing.T) {
	if got, err := MergeBookings([]Booking{{20, 10}}); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}

func TestTheGapsThatAreLongEnough(t *testing.T) {
	got, err := FreeSlots([]Booking{{540, 600}, {630, 720}}, 480, 780, 60)
	want := []Booking{{480, 540}, {720, 780}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

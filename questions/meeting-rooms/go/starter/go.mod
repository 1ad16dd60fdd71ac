module bookings

go 1.21

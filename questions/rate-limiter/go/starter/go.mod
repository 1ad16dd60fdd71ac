module limiter

go 1.21

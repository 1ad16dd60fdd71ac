module index

go 1.21

module order

go 1.21

module report

go 1.21

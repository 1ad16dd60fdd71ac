package index

import "strings"

// Words returns the words of a text in their order: letters and digits, in lower case.
func Words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(char rune) bool {
		return !(char >= 'a' && char <= 'z' || char >= '0' && char <= '9')
	})
}

//go:build unix && !race

package dock

const raced = false

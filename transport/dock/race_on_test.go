//go:build unix && race

package dock

// raced says that the race detector is on, under which a gigabyte takes long.
const raced = true

//go:build race

package shape_test

// share is what part of a large text is tried: the race detector makes counting
// many times slower, and nothing here is concurrent.
const share = 8

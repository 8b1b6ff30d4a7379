//go:build !race

package shape_test

const share = 1

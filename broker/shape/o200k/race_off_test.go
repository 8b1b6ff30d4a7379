//go:build !race

package o200k

const share = 1

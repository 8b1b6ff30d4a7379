package shape_test

import (
	"testing"

	"berth/broker/shape/o200k"
)

// BenchmarkShape cuts an answer of some 380 kB, about 94,000 tokens, to the
// default budget.
func BenchmarkShape(b *testing.B) {
	result := text(records(7000))
	b.SetBytes(int64(len(result)))
	for b.Loop() {
		shaped(b, result, limits(0), o200k.Counter{})
	}
}

// BenchmarkShapeNothing is what an answer costs that fits.
func BenchmarkShapeNothing(b *testing.B) {
	result := text(records(300))
	b.SetBytes(int64(len(result)))
	for b.Loop() {
		shaped(b, result, limits(0), o200k.Counter{})
	}
}

//go:build !race

package main

// raceDetector says whether the broker under test is built with it, as this test is.
const raceDetector = false

//go:build !race

package main

// raceDetector says whether the brokers that the tests start are built with
// it, as the tests are.
const raceDetector = false

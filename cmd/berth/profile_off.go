//go:build !profile

package main

// profile is nothing in a normal build.
func profile() (stop func(), err error) { return func() {}, nil }

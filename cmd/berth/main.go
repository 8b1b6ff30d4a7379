// Command berth is the broker, its bridge and its operator's tool in one
// binary. This is the only place that wires. Each subcommand has a file with
// its options, its parsing and its run; what it shows comes from the running
// broker's operator API, as a table or, with --json, as the API gave it.
//
// It refuses to guess: with no broker running it says so and exits 3. No
// credential is ever an argument. Every command but serve runs in one
// goroutine, with one more for the progress line while it waits.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Package architecture holds no code. Its tests read every package of the
// module and fail when one imports what it must not, when a pure package
// touches a clock, a file, a socket or a goroutine, or when a package has no
// doc comment. The rules and their reasons are the tables in rules_test.go.
package architecture

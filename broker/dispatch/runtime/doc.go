// Package runtime knows the agent programs that captains run: the argument
// vector of each, how it gets its prompt and its MCP configuration, and what its
// output means (contracts/native.md section 4).
//
// It owns the table of runtimes and the reading of their streams, line by line:
// the text an agent wrote, its markers, its last message. It refuses a runtime
// that is not built and a prompt that a program cannot take. No credential is in
// anything it gives: configurations name the variable that holds one.
//
// It starts nothing and does no I/O: a [Plan] is data for whoever runs it, a
// [Stream] is fed with lines. A Stream has one user.
package runtime

//go:build unix

// Package agent is an agent program for tests and the demo: it does what
// directives in its prompt say, and speaks as one of the programs that captains
// run, so that everything round an agent can be tried without a model.
//
// It owns nothing but its working directory and the files that it is told of.
// It refuses an argument that the program it plays is not given by the broker
// (contracts/native.md section 4), so that a launch with a wrong one fails.
//
// Directives stand alone on a line; other lines are passed over:
//
//	@write PATH TEXT     writes a file; \n in TEXT is a new line
//	@commit MESSAGE      commits everything
//	@git ARGS            runs git
//	@say TEXT            says something
//	@marker KIND VALUE   says [BERTH:KIND] VALUE
//	@mcp VERB JSON       calls the broker, and says the answer
//	@prompt              says the length and the SHA-256 of the prompt
//	@sum NAME            says the SHA-256 of an environment variable
//	@environ             says the names of its environment
//	@stderr TEXT         writes to standard error
//	@print BYTES         prints lines
//	@noline BYTES        prints one line without an end
//	@hold FILE           waits until a file exists
//	@fork FILE           leaves a process in its group, its id in FILE
//	@detach FILE         leaves one in a session of its own, without a parent
//	@deaf                does not listen to signals from here on
//	@rmworktree          removes its working directory
//	@kill NUMBER         sends itself a signal
//	@exit N              ends
//
// It is a process of its own; nothing in it is safe for concurrent use.
package agent

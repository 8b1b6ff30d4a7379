// Package brief writes what an agent is told of its mission: one text, which is
// its prompt (contracts/native.md section 4).
//
// It owns the words, their order, and how much of each part is told: every part
// has a limit, and where one was cut the text says so. What others wrote, another
// agent or who spoke to the mission, is quoted line by line and called theirs. No
// line of the words that are its own is a marker, so that an agent that repeats
// its prompt reports nothing by it. It refuses nothing and leaves out what there
// is not.
//
// It is a pure function of values, safe for concurrent use. No credential is
// among them: the text names the variable that holds one.
package brief

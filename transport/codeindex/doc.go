// Package codeindex keeps the code indexes of vessels in the file system: one
// directory a vessel, and in it one SQLite database with a full-text table.
//
// It owns these files and the bare clones that they are made from. An update
// writes a database beside the finished one and puts it in its place by one
// rename, so a reader has the one or the other whole; what a stop in the middle
// leaves is removed. Which rules text is judged by is berth/broker/native/codeindex's.
//
// It refuses nothing of its own accord. What is not indexed (larger than a
// mebibyte, not text, no file, more than a million) is counted by reason.
//
// An Engine is safe for concurrent use. It starts goroutines for the time of an
// update, which waits for them. Close waits for what still reads.
package codeindex

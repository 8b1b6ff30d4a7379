// Package codeindex is the native family of the search in a vessel's code
// (contracts/native.md section 6).
//
// It owns the verbs' entries, how text is cut into chunks and terms, which lines
// define a name, how a hit is scored, what an index may be called, and that a
// vessel has one update at a time. Where the files and the commits come from, and
// how they are kept, is asked of an [Index].
//
// The agents of missions search with mission_code_search, in the vessel of their
// mission and so many times; it answers every call and refuses none. context_pack
// packs code for a goal within a number of tokens, by the counter that the family
// is given.
//
// It refuses an update while another one of the vessel runs. A search on a vessel
// whose index cannot be searched is answered without results, with the remedy;
// it is no refusal, and nothing is built by it.
//
// It starts no goroutine and has no clock. A [Family] is safe for concurrent use;
// the functions on text are pure.
package codeindex

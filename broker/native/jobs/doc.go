// Package jobs is the native family of accepted work: the verb job_status
// (contracts/native.md section 2).
//
// It owns the verb's entry, its answers and its refusals. It shows a job to a
// global administrator and to its owner; to anyone else the job does not
// exist, in the same words as an id that never did. It changes nothing.
//
// It starts no goroutine and has no clock: the time to wait is measured by
// Options.After, changes come from Store.Watch. A Conn is safe for concurrent
// use; a call holds its caller's goroutine for at most waitSeconds and ends
// when its context ends.
package jobs

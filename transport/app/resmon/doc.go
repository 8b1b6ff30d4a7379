// Package resmon is the surface of resmon, contract 1.0: tools over 44
// method-and-path pairs of one local app, as a table for package app.
//
// It owns the table and what is resmon's own: the names of its tools and their
// arguments, the projection of its answers, the composition of several requests
// where a tool needs them, the settings that a tool may change, and its
// sentences. It refuses, before a request is built, what the contract keeps out
// of reach. All of it is pure: package app does the HTTP.
//
// Surface gives the table; it is made once, is never changed and is safe for
// concurrent use.
package resmon

// Package config turns the text of a configuration file into values: which
// backends there are and within which limits they and the broker work.
//
// It owns the file format: the `mcpServers` convention that MCP clients share,
// as JSON or YAML, the expansion of `${VAR}`, Berth's own keys in `berth`
// objects, their defaults and ranges, and the secrecy of what may be a
// credential (Secret, SecretList, SecretMap print as names or counts only).
//
// It refuses a file as a whole: an unknown key inside a `berth` object, a
// value out of its range, a variable that is not set, a name that cannot be
// routed. Every problem of a file is reported in one error, in the order of
// the file, each with its JSON pointer, line and column and never with a value
// that could be a secret. Unknown keys outside `berth` belong to other
// programs and are passed over; Config.Notes names them.
//
// Everything here is pure: bytes and a look-up of environment variables go in,
// a value comes out. No file, clock or goroutine is used; the results are plain
// values that nobody changes afterwards, so they may be shared.
//
// The struct tags and comments of Broker, Backend, Settings and their parts
// are the source of docs/configuration.md:
//
//	key      the name in the file
//	default  the value when the key is absent
//	min max  the range, ends included
//	enum     the words allowed, separated by |
//	check    a named rule for text (see checks)
//	never    "true" when the word "never" is a value too
//	keyed    the field of the element that holds the key of an object's member
package config

//go:generate go run ./gendoc -out ../../docs/configuration.md

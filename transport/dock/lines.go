//go:build unix

package dock

import (
	"bytes"
	"unicode/utf8"
)

// maxEvent is the longest line that is read as an event of a stream, in bytes.
const maxEvent = 4 << 20

// splitter cuts what is written to it into lines. A line that is too long comes
// in pieces, each of 64 KiB at most, cut so that neither a character nor a known
// credential is in two of them. Where events are, a line that begins like one is
// kept whole up to 4 MiB; of a longer one nothing comes but that it was passed
// over. It has one user.
type splitter struct {
	events   bool
	redactor redactor
	// each gets a line or a piece: more says that another is at hand.
	each func(l line)

	buf  []byte
	on   bool // buf goes on with a line that was cut
	skip bool // the rest of the line is passed over
}

// line is what a splitter gives.
type line struct {
	text   string
	on     bool // it goes on with the one before
	long   bool // the beginning of an event that is too long; text is empty
	passed bool // more of that event; text is empty
	more   bool // another is at hand
}

// Write never fails.
func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		if s.skip {
			s.skip = !ended
			p = rest
			s.each(line{passed: true, more: bytes.IndexByte(p, '\n') >= 0})
			continue
		}
		if room := s.limit(part) - len(s.buf); len(part) > room {
			s.buf = append(s.buf, part[:room]...)
			p = p[room:]
			s.cut()
			continue
		}
		s.buf = append(s.buf, part...)
		p = rest
		if ended {
			s.emit(len(s.buf), bytes.IndexByte(p, '\n') >= 0)
			s.on = false
		}
	}
	return n, nil
}

// limit is how long the line in buf, which goes on with part, may become.
func (s *splitter) limit(part []byte) int {
	if !s.events || s.on {
		return maxPiece
	}
	beginning := bytes.TrimLeft(s.buf, " \t")
	if len(beginning) == 0 {
		beginning = bytes.TrimLeft(part, " \t")
	}
	if len(beginning) > 0 && beginning[0] == '{' {
		return maxEvent
	}
	return maxPiece
}

// cut gives what is in buf, which is full, as a piece.
func (s *splitter) cut() {
	if len(s.buf) > maxPiece {
		s.buf, s.skip = nil, true
		s.each(line{long: true})
		return
	}
	kept := max(s.redactor.straddles(s.buf), unfinished(s.buf))
	if kept >= len(s.buf) {
		kept = 0
	}
	s.emit(len(s.buf)-kept, false)
	s.on = true
}

// unfinished is how many bytes at the end of text are the beginning of a
// character.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// emit gives the first n bytes of buf and keeps the rest.
func (s *splitter) emit(n int, more bool) {
	text := string(bytes.TrimSuffix(s.buf[:n], []byte{'\r'}))
	s.buf = s.buf[:copy(s.buf, s.buf[n:])]
	if cap(s.buf) > 4*maxPiece { // a large event went through
		s.buf = append([]byte(nil), s.buf...)
	}
	s.each(line{text: text, on: s.on, more: more})
}

// end gives what did not end with a line.
func (s *splitter) end() {
	if len(s.buf) > 0 {
		s.emit(len(s.buf), false)
	}
	s.on, s.skip = false, false
}

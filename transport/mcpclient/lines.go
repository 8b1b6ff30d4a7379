package mcpclient

import (
	"bufio"
	"bytes"
	"io"
	"sync"
)

// peekSize is how much of either end of an oversized line is kept to find the
// id that it answers.
const peekSize = 4 << 10

// lineReader splits a stream into lines of at most max bytes. A longer line is
// skipped to its end and reported, so that the stream stays usable.
type lineReader struct {
	r   *bufio.Reader
	max int
}

// line is one line without its end. Of an oversized one only both ends are
// kept.
type line struct {
	text       []byte // owned by the receiver
	oversized  bool
	head, tail []byte
}

// buffers are shared, as each event stream needs one for a moment.
var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}

// newLineReader takes a buffer, which release gives back.
func newLineReader(r io.Reader, max int) *lineReader {
	b := buffers.Get().(*bufio.Reader)
	b.Reset(r)
	return &lineReader{r: b, max: max}
}

func (l *lineReader) release() {
	l.r.Reset(nil)
	buffers.Put(l.r)
	l.r = nil
}

// next reads a line. At the end of the stream it gives what is left, if
// anything, and then io.EOF.
func (l *lineReader) next() (line, error) {
	chunk, err := l.r.ReadSlice('\n')
	if err == nil && len(chunk) <= l.max+1 {
		return line{text: bytes.Clone(trimEnd(chunk))}, nil
	}
	text := bytes.Clone(chunk)
	for err == bufio.ErrBufferFull && len(text) <= l.max+1 {
		chunk, err = l.r.ReadSlice('\n')
		if len(text)+len(chunk) > cap(text) {
			// Twice, where append would take a quarter more: a long line is
			// copied once over all instead of four times.
			text = append(make([]byte, 0, min(2*cap(text), l.max)+len(chunk)), text...)
		}
		text = append(text, chunk...)
	}
	if len(trimEnd(text)) > l.max {
		return l.skip(text, err)
	}
	if err == io.EOF && len(text) > 0 {
		err = nil
	}
	return line{text: trimEnd(text)}, err
}

// skip reads to the end of a line of which text was read.
func (l *lineReader) skip(text []byte, err error) (line, error) {
	out := line{oversized: true, head: bytes.Clone(text[:min(len(text), peekSize)])}
	tail := bytes.Clone(text[max(0, len(text)-peekSize):])
	for err == bufio.ErrBufferFull {
		var chunk []byte
		chunk, err = l.r.ReadSlice('\n')
		if len(chunk) < peekSize {
			tail = append(tail, chunk...)
		} else {
			tail = append(tail[:0], chunk[len(chunk)-peekSize:]...)
		}
		if over := len(tail) - peekSize; over > 0 {
			tail = append(tail[:0], tail[over:]...)
		}
	}
	out.tail = trimEnd(tail)
	if err == io.EOF {
		err = nil
	}
	return out, err
}

func trimEnd(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte{'\n'})
	return bytes.TrimSuffix(b, []byte{'\r'})
}

// oversizedID finds the id of an oversized message in its first or last bytes:
// implementations write it first or last, and what is between is gone.
func oversizedID(head, tail []byte) (int64, bool) {
	var id int64
	found, isRequest := false, false
	// The walk ends with an error, as head is cut off; what it saw counts.
	_ = eachMember(head, func(name []byte, m member) error {
		switch string(name) {
		case "id":
			id, found = number(head[m.valueStart:m.valueEnd])
			found = found && m.valueEnd < len(head) // else it may be cut off
		case "method":
			isRequest = true
		}
		return nil
	})
	if isRequest {
		return 0, false
	}
	if found {
		return id, true
	}
	return lastID(tail)
}

// lastID reads `,"id":N}` at the end of an object, a "jsonrpc" member after it
// allowed. The last brace closes the message itself, so the member is its own.
func lastID(tail []byte) (int64, bool) {
	rest, ok := cutEnd(tail, "}")
	if !ok {
		return 0, false
	}
	if r, ok := cutEnd(rest, `"2.0"`); ok {
		if r, ok = cutEnd(r, ":"); ok {
			if r, ok = cutEnd(r, `"jsonrpc"`); ok {
				if rest, ok = cutEnd(r, ","); !ok {
					return 0, false
				}
			}
		}
	}
	rest = bytes.TrimRight(rest, " \t\r\n")
	end := len(rest)
	for end > 0 && rest[end-1] >= '0' && rest[end-1] <= '9' {
		end--
	}
	id, ok := number(rest[end:])
	if !ok {
		return 0, false
	}
	if rest, ok = cutEnd(rest[:end], ":"); !ok {
		return 0, false
	}
	if rest, ok = cutEnd(rest, `"id"`); !ok {
		return 0, false
	}
	// A name that merely ends in "id" has an escaped quote here instead.
	_, ok = cutEnd(rest, ",")
	return id, ok
}

func cutEnd(b []byte, suffix string) ([]byte, bool) {
	b = bytes.TrimRight(b, " \t\r\n")
	return bytes.CutSuffix(b, []byte(suffix))
}

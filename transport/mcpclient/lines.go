package mcpclient

import (
	"bufio"
	"bytes"
	"io"
	"sync"

	"berth/transport/jsonrpc"
)

// headSize is how much of the beginning of an oversized line is kept: enough to
// tell what kind of line of an event stream it is.
const headSize = 16

// lineReader splits a stream into lines of at most max bytes. A longer line is
// skipped to its end and reported, so that the stream stays usable.
type lineReader struct {
	r   *bufio.Reader
	max int
}

// line is one line without its end.
type line struct {
	text    []byte        // owned by the receiver; of an oversized line its beginning
	skimmed *jsonrpc.Skim // of an oversized line; else nil
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
	out := line{text: bytes.Clone(text[:min(len(text), headSize)]), skimmed: new(jsonrpc.Skim)}
	_, _ = out.skimmed.Write(text) // never fails
	for err == bufio.ErrBufferFull {
		var chunk []byte
		chunk, err = l.r.ReadSlice('\n')
		_, _ = out.skimmed.Write(chunk)
	}
	if err == io.EOF {
		err = nil
	}
	return out, err
}

func trimEnd(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte{'\n'})
	return bytes.TrimSuffix(b, []byte{'\r'})
}

// answers gives the id of ours that an oversized line is the answer to.
func (l line) answers() (int64, bool) {
	id, ok := l.skimmed.Response()
	if !ok {
		return 0, false
	}
	return number(id)
}

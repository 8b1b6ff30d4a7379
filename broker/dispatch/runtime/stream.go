package runtime

import (
	"encoding/json"
	"strconv"
	"strings"

	"berth/broker/dispatch"
)

// Result is what an agent said of its own work.
type Result string

// The results.
const (
	ResultComplete Result = "COMPLETE"
	ResultRefused  Result = "REFUSED"
)

// Verdict is what an agent said of another's work.
type Verdict string

// The verdicts.
const (
	VerdictPass     Verdict = "PASS"
	VerdictFail     Verdict = "FAIL"
	VerdictRevision Verdict = "NEEDS_REVISION"
)

const (
	// maxMessage is how much of an agent's last message is kept, in bytes.
	maxMessage = 1 << 20
	// maxMarker is the longest line that is taken for a marker when it comes in
	// pieces, in bytes.
	maxMarker = 4 << 10
	// maxStatus is the longest status that a marker sets, in bytes.
	maxStatus = 500
)

// Stream reads what a program writes, line by line, and is told of the end.
type Stream struct {
	Runtime dispatch.Runtime

	Progress *int   // percent; nil: it was not said
	Status   string // the last one that was said
	Result   Result
	Verdict  Verdict

	message []byte // the last one that the agent wrote
	kind    kind   // of what came last
	pending string // the beginning of the line that pieces go on with
}

// kind is how a piece of text goes on from the one before.
type kind int

const (
	nothing kind = iota
	message      // stands for itself
	piece        // goes on where the one before ended
	plain        // a line of output that is no event
)

// Line reads one line of output, without its end, and gives the text in it that
// a person would read, for the mission's log; empty: there is none.
func (s *Stream) Line(line string) string {
	text, is := line, plain
	if read, known := readers[s.Runtime]; known && strings.HasPrefix(strings.TrimSpace(line), "{") {
		if t, part, isEvent := read([]byte(line)); isEvent {
			if text, is = t, message; part {
				is = piece
			}
		}
	}
	if is != piece {
		s.End()
	}
	if text == "" {
		return ""
	}
	switch {
	case is == piece && s.kind == piece:
	case is == plain && s.kind == plain:
		s.message = append(s.message, '\n')
	default:
		s.message = s.message[:0]
	}
	s.message = append(s.message, text...)
	if len(s.message) > 2*maxMessage { // so that each byte is moved once
		s.message = s.message[:copy(s.message, s.message[len(s.message)-maxMessage:])]
	}
	s.kind = is
	if is == piece {
		lines := strings.Split(s.pending+text, "\n")
		s.pending = lines[len(lines)-1]
		if len(s.pending) > maxMarker {
			s.pending = s.pending[:maxMarker]
		}
		s.markers(lines[:len(lines)-1])
	} else {
		s.markers(strings.Split(text, "\n"))
	}
	return text
}

// End is called when no line follows.
func (s *Stream) End() {
	s.markers([]string{s.pending})
	s.pending = ""
}

// Message is the agent's last message so far; of plain output its end, a
// mebibyte at most.
func (s *Stream) Message() string {
	text := s.message
	if len(text) > maxMessage {
		text = text[len(text)-maxMessage:]
	}
	return strings.ToValidUTF8(string(text), "")
}

func (s *Stream) markers(lines []string) {
	for _, l := range lines {
		s.marker(strings.TrimSpace(l))
	}
}

// marker reads a line that may be one.
func (s *Stream) marker(line string) {
	body, ours := strings.CutPrefix(line, "[BERTH:")
	if !ours {
		if body, ours = strings.CutPrefix(line, "[ARMADA:"); !ours {
			return
		}
	}
	kind, value, ok := strings.Cut(body, "]")
	value = strings.TrimSpace(value)
	if !ok || value == "" {
		return
	}
	switch kind {
	case "PROGRESS":
		if n, err := strconv.Atoi(strings.TrimSuffix(value, "%")); err == nil && n >= 0 && n <= 100 {
			s.Progress = &n
		}
	case "STATUS":
		if len(value) > maxStatus {
			value = strings.ToValidUTF8(value[:maxStatus], "")
		}
		s.Status = value
	case "RESULT":
		if r := Result(value); r == ResultComplete || r == ResultRefused {
			s.Result = r
		}
	case "VERDICT":
		if v := Verdict(value); v == VerdictPass || v == VerdictFail || v == VerdictRevision {
			s.Verdict = v
		}
	}
}

// readers give the agent's text in an event of a runtime's stream: part is true
// for a piece that goes on where the one before ended, isEvent false for a line
// that is not of the stream.
var readers = map[dispatch.Runtime]func(line []byte) (text string, part, isEvent bool){
	dispatch.ClaudeCode: messages, dispatch.Cursor: messages, dispatch.Codex: items, dispatch.Gemini: pieces, dispatch.OpenCode: parts,
}

// messages reads {"type":"assistant","message":{"content":[{"type":"text",...}]}}
// and the result at the end.
func messages(line []byte) (string, bool, bool) {
	var e struct {
		Type    string `json:"type"`
		Message struct {
			Content []struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"content"`
		} `json:"message"`
		Result string `json:"result"`
	}
	if err := json.Unmarshal(line, &e); err != nil || e.Type == "" {
		return "", false, false
	}
	switch e.Type {
	case "assistant":
		var texts []string
		for _, c := range e.Message.Content {
			if c.Type == "text" {
				texts = append(texts, c.Text)
			}
		}
		return strings.Join(texts, "\n"), false, true
	case "result":
		return e.Result, false, true
	}
	return "", false, true
}

// items reads {"type":"item.completed","item":{"type":"agent_message",...}}.
func items(line []byte) (string, bool, bool) {
	var e struct {
		Type string `json:"type"`
		Item struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"item"`
	}
	if err := json.Unmarshal(line, &e); err != nil || e.Type == "" {
		return "", false, false
	}
	if e.Type != "item.completed" || e.Item.Type != "agent_message" {
		return "", false, true
	}
	return e.Item.Text, false, true
}

// pieces reads {"type":"message","role":"assistant","content":...,"delta":true}.
func pieces(line []byte) (string, bool, bool) {
	var e struct {
		Type    string `json:"type"`
		Role    string `json:"role"`
		Content string `json:"content"`
		Delta   bool   `json:"delta"`
	}
	if err := json.Unmarshal(line, &e); err != nil || e.Type == "" {
		return "", false, false
	}
	if e.Type != "message" || e.Role != "assistant" {
		return "", false, true
	}
	return e.Content, e.Delta, true
}

// parts reads {"type":"text","part":{"text":...}}.
func parts(line []byte) (string, bool, bool) {
	var e struct {
		Type string `json:"type"`
		Part struct {
			Text string `json:"text"`
		} `json:"part"`
	}
	if err := json.Unmarshal(line, &e); err != nil || e.Type == "" {
		return "", false, false
	}
	if e.Type != "text" {
		return "", false, true
	}
	return e.Part.Text, false, true
}

package broker

// maxParticipant is the longest participant key, in characters.
const maxParticipant = 128

// ParticipantKey reports whether text can name a participant of the board: 1 to
// 128 of A-Z a-z 0-9 . _ : - (contracts/native.md section 1.9).
func ParticipantKey(text string) bool { return boardKey(text, maxParticipant) }

// ParticipantHeader carries the key. It is canonical.
const ParticipantHeader = "X-Armada-Participant"

// Participant reads the values of the header. What is no key, or more than one,
// is nobody.
func Participant(values []string) string {
	if len(values) != 1 || !ParticipantKey(values[0]) {
		return ""
	}
	return values[0]
}

// maxRoom is the longest key of a room.
const maxRoom = 64

// DefaultRoom is the room of whoever names none.
const DefaultRoom = "fleet"

// RoomKey gives the room that a key names; false for one that names none.
func RoomKey(key string) (string, bool) {
	switch key {
	case "", DefaultRoom, "default":
		return DefaultRoom, true
	}
	return key, boardKey(key, maxRoom)
}

func boardKey(text string, most int) bool {
	if text == "" || len(text) > most {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

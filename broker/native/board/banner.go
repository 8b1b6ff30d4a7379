package board

import (
	"strconv"
	"strings"

	"berth/broker"
)

// Limits of a banner.
const (
	bannerLines = 5
	bannerText  = 400  // characters of one payload
	maxCounted  = 1000 // unread wakes are counted so far
)

// Banner is the block that tells a participant of its unread wakes; empty: there
// are none. verb is the name under which the caller has mark_signal_read. A
// payload is one line of it, whatever it holds.
func (b *Board) Banner(who broker.Principal, participant, verb string) (string, error) {
	caller := Caller{Principal: who, Participant: participant, Now: b.opts.Now()}
	wakes, err := b.unread(caller, participant, bannerLines)
	if err != nil || len(wakes) == 0 {
		return "", err
	}
	total := len(wakes)
	if total == bannerLines {
		total = 0
		for _, key := range b.wakeLists(caller, participant) {
			n, err := b.opts.Store.CountRecords(b.unreadQuery(caller, key, maxCounted))
			if err != nil {
				return "", err
			}
			total += n
		}
	}
	var out strings.Builder
	out.WriteString("[ARMADA WAKE] " + counted(total) + " Act on them before you go on; mark each one read with " + verb + ".")
	for _, w := range wakes {
		out.WriteString("\n- " + cut(oneLine(w.Payload), bannerText))
	}
	if more := total - len(wakes); more > 0 {
		out.WriteString("\n- (" + strconv.Itoa(more) + " more; read the board for the rest)")
	}
	return out.String(), nil
}

func counted(n int) string {
	switch {
	case n == 1:
		return "1 note for you is unread."
	case n >= maxCounted: // no more were counted
		return strconv.Itoa(n) + " or more notes for you are unread."
	}
	return strconv.Itoa(n) + " notes for you are unread."
}

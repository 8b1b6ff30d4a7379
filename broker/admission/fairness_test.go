package admission_test

import (
	"testing"

	"berth/broker"
	"berth/broker/admission"
)

func TestFairnessWithoutASessionIsByParticipant(t *testing.T) {
	for _, tt := range []struct{ session, participant, want string }{
		{"s", "k", "s"}, {"", "k", "participant k"}, {"", "", ""},
	} {
		c := &broker.Call{Session: tt.session, Origin: broker.Origin{Participant: tt.participant}}
		if got := admission.TicketOf(c, broker.LaneCalls, 0).Session; got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

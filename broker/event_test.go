package broker_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"berth/broker"
)

func TestAnEventIsShownWithNullsAndItsPayloadAsText(t *testing.T) {
	for _, tc := range []struct {
		name  string
		event broker.Event
		want  string
	}{
		{"bare", broker.Event{ID: "evt_1", EventType: "x"},
			`{"Id":"evt_1","EventType":"x","EntityType":null,"EntityId":null,"TenantId":null,"CaptainId":null,"MissionId":null,"VesselId":null,"VoyageId":null,"Message":null,"Payload":null,"CreatedUtc":null}`},
		{"whole", broker.Event{ID: "evt_1", EventType: "x", EntityType: "job", EntityID: "job_1", TenantID: "t", CaptainID: "c", MissionID: "m", VesselID: "v", VoyageID: "y",
			Message: "said", Payload: json.RawMessage(`{"a":1}`), CreatedAt: time.Date(2026, 5, 4, 9, 0, 0, 5e6, time.UTC)},
			`{"Id":"evt_1","EventType":"x","EntityType":"job","EntityId":"job_1","TenantId":"t","CaptainId":"c","MissionId":"m","VesselId":"v","VoyageId":"y","Message":"said","Payload":"{\"a\":1}","CreatedUtc":"2026-05-04T09:00:00.005Z"}`},
		{"live", broker.Event{EventType: broker.EventJobChanged},
			`{"Id":null,"EventType":"job.changed","EntityType":null,"EntityId":null,"TenantId":null,"CaptainId":null,"MissionId":null,"VesselId":null,"VoyageId":null,"Message":null,"Payload":null,"CreatedUtc":null}`},
	} {
		got, err := json.Marshal(tc.event.View())
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %s (%v)", tc.name, got, err)
		}
	}
}

func TestAnEventOfAnEarlierBuildStillReads(t *testing.T) {
	stored := `{"Id":"evt_1","EventType":"job.failed","EntityType":"job","EntityId":"job_1","TenantId":"default","Message":"job_1: broke","CreatedUtc":"2026-05-04T09:00:00Z"}`
	var e broker.Event
	if err := json.Unmarshal([]byte(stored), &e); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(e); err != nil || string(again) != stored {
		t.Errorf("%s (%v)", again, err)
	}
}

func TestTheTimeInAnEventID(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_123)
	id, err := broker.NewID(broker.EventPrefix, now, bytes.NewReader(bytes.Repeat([]byte{7}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := broker.EventIDTime(id); !ok || !at.Equal(now) {
		t.Errorf("%v, %v of %s", at, ok, id)
	}
	if at, ok := broker.EventIDTime(broker.FirstCursor); !ok || at.UnixMilli() != 0 {
		t.Errorf("%v, %v of the first cursor", at, ok)
	}
	for _, bad := range []string{"", "evt_", "job_" + id[4:], id + "x", id[:23], id[:23] + "-", id[:23] + "\n", "evt_" + "!!!!!!!!_aaaaaaaaaaa", id[4:] + "evt_"} {
		if _, ok := broker.EventIDTime(bad); ok {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestEventsOfAJob(t *testing.T) {
	q := broker.EventQuery{JobID: "job_1"}
	for _, tc := range []struct {
		event broker.Event
		want  bool
	}{
		{broker.Event{EventType: "job.cancel_requested", EntityType: "job", EntityID: "job_1"}, true},
		{broker.Event{EventType: broker.EventJobFailed, EntityType: "objective", EntityID: "obj_1", Message: "job_1: broke"}, true},
		{broker.Event{EventType: broker.EventJobFailed, EntityType: "objective", EntityID: "obj_1", Message: "job_11: broke"}, false},
		{broker.Event{EventType: "note", EntityType: "objective", Message: "job_1: broke"}, false},
		{broker.Event{EventType: broker.EventJobFailed, EntityType: "job", EntityID: "job_2", Message: "job_1: broke"}, false},
	} {
		if q.Match(tc.event) != tc.want {
			t.Errorf("%+v", tc.event)
		}
	}
}

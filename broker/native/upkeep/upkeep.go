// Package upkeep is the verbs with which an operator keeps the broker itself:
// backup, restore and stop_server.
//
// It owns their arguments and answers. What they do (copying, replacing the
// journal, going down) is done by who gives a [Keeper]; it refuses with codes of
// package broker. All three are control calls: they take no seat, are never
// queued and never become jobs, because the record of one would lie in what it
// copies, replaces or closes.
//
// A Keeper is called from several goroutines.
package upkeep

import (
	"context"
	"encoding/json"

	"berth/broker"
	"berth/broker/native"
)

// Keeper copies and replaces the journal, and stops the broker.
type Keeper interface {
	// BackUp writes a verified archive; an empty path is one of its own choice.
	BackUp(ctx context.Context, who broker.Principal, path string) (any, error)
	// Restore puts the journal of an archive in the place of the present one.
	Restore(ctx context.Context, who broker.Principal, path string) (any, error)
	// Stop has the broker go down once the answers that are on their way have
	// left. It does not wait.
	Stop(who broker.Principal)
}

// The verbs.
const (
	Backup  = "backup"
	Restore = "restore"
	Stop    = "stop_server"
)

const (
	backupEntry = `{"name":"backup","title":"Back up the journal",` +
		`"description":"Writes a verified copy of the broker's journal (jobs, events, records) with its large results and redacted settings into one ZIP file on the broker's host. The copy is opened on its own, checked and counted before the file gets its name; a failure leaves no archive. Results of jobs are in it: keep it private.",` +
		`"inputSchema":{"type":"object","properties":{` +
		`"outputPath":{"type":"string","description":"Where the archive is written: an absolute path, or a name in the broker's backup folder. Without it the name is made of the time."}` +
		`}},"annotations":{"openWorldHint":false}}`
	restoreEntry = `{"name":"restore","title":"Restore a backup",` +
		`"description":"Puts the journal of a backup in the place of the broker's present one, while it runs. It is refused while a job is unfinished. The whole archive is checked first and a safety copy of the present journal is made; any failure leaves everything as it was. Jobs that the backup has as unfinished become Lost.",` +
		`"inputSchema":{"type":"object","properties":{` +
		`"filePath":{"type":"string","description":"The archive on the broker's host: an absolute path, or a name in its backup folder."}` +
		`},"required":["filePath"]},"annotations":{"openWorldHint":false}}`
	stopEntry = `{"name":"stop_server","title":"Stop the broker",` +
		`"description":"Has the broker go down: calls that run have up to its drain time to end, and jobs that are still unfinished then become Lost at the next start; agents are ended, and their missions Failed. The answer lists what is unfinished now.",` +
		`"inputSchema":{"type":"object","properties":{}},"annotations":{"openWorldHint":false}}`
)

// Stopping is the answer of stop_server.
type Stopping struct {
	Status          string
	UnfinishedJobs  []json.RawMessage // null: not known
	WorkingMissions []string          // by their ids; null: not known
}

// Work tells what a restart would end.
type Work interface {
	UnfinishedJobs() ([]json.RawMessage, error)
	WorkingMissions() ([]string, error)
}

// NewFamily makes the family.
func NewFamily(k Keeper, work Work, o native.Options) *native.Verbs {
	verb := func(name, entry string, effects broker.Effects, answer func(context.Context, native.Ask) (any, error)) native.Verb {
		return native.Verb{Name: name, Entry: entry, Aliases: []string{"armada_" + name}, Effects: effects, Control: true, Answer: answer}
	}
	return native.NewFamily("backup", o,
		verb(Backup, backupEntry, broker.Write, func(ctx context.Context, ask native.Ask) (any, error) {
			var args struct{ OutputPath string }
			if err := ask.Decode(&args); err != nil {
				return nil, err
			}
			return k.BackUp(ctx, ask.Call.Principal, args.OutputPath)
		}),
		verb(Restore, restoreEntry, broker.Write|broker.Destroy, func(ctx context.Context, ask native.Ask) (any, error) {
			var args struct{ FilePath string }
			if err := ask.Decode(&args); err != nil {
				return nil, err
			}
			return k.Restore(ctx, ask.Call.Principal, args.FilePath)
		}),
		verb(Stop, stopEntry, broker.Write|broker.Destroy, func(_ context.Context, ask native.Ask) (any, error) {
			stopping := Stopping{Status: "shutting_down"} // what cannot be read is null; the broker can be stopped all the same
			if jobs, err := work.UnfinishedJobs(); err == nil {
				stopping.UnfinishedJobs = jobs
			}
			if missions, err := work.WorkingMissions(); err == nil {
				stopping.WorkingMissions = missions
			}
			k.Stop(ask.Call.Principal)
			return stopping, nil
		}))
}

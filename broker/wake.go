package broker

// WakeRun is a process that a wake starts: argv, never a shell, with the task on
// its standard input.
type WakeRun struct {
	ID             string
	ParticipantKey string
	Runtime        string
	Command        string
	Args           []string
	Dir            string // empty: the broker's own
	Input          string
}

package mcpclient

import "time"

// elapse lets the clock of a synctest bubble run.
func elapse(d time.Duration) { <-time.After(d) }

package broker

import (
	"fmt"
	"io"
	"strconv"
	"time"
)

const alphanumerics = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// idLength is the length of every record id (contracts/native.md section 0).
const idLength = 24

// The prefixes of record ids.
const (
	JobPrefix   = "job_"
	EventPrefix = "evt_"
	// CredentialPrefix is Berth's own.
	CredentialPrefix = "crd_"
)

// NewID makes a record id: the prefix, 8 characters of base-36 milliseconds,
// an underscore and random alphanumerics, 24 characters in all, so that ids
// sort by age. random must give unpredictable bytes; it fails only when random
// does.
func NewID(prefix string, now time.Time, random io.Reader) (string, error) {
	stamp := strconv.FormatInt(now.UnixMilli(), 36)
	for len(stamp) < 8 {
		stamp = "0" + stamp
	}
	id := make([]byte, 0, idLength)
	id = append(id, prefix...)
	id = append(id, stamp...)
	id = append(id, '_')
	buf := make([]byte, 32)
	for len(id) < idLength {
		if _, err := io.ReadFull(random, buf); err != nil {
			return "", fmt.Errorf("random bytes for an id: %w", err)
		}
		for _, b := range buf {
			// 248 is the largest multiple of 62 in a byte: no character is favoured.
			if b < 248 && len(id) < idLength {
				id = append(id, alphanumerics[b%62])
			}
		}
	}
	return string(id), nil
}

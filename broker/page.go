package broker

import "time"

// Page is the answer of every list that comes in pages (contracts/native.md
// section 1.11).
type Page[T any] struct {
	Success      bool
	PageNumber   int // from 1
	PageSize     int
	TotalPages   int
	TotalRecords int
	Objects      []T
	TotalMS      int64 `json:"TotalMs"` // how long the list took, in whole milliseconds
}

// DefaultPageSize and MaxPageSize are of every paged list.
const (
	DefaultPageSize = 10
	MaxPageSize     = 1000
)

// The orders of a paged list.
const (
	CreatedDescending = "CreatedDescending"
	CreatedAscending  = "CreatedAscending"
)

// PageRequest says which page; zero numbers are the defaults.
type PageRequest struct {
	Number, Size int
	OldestFirst  bool
}

// Normal is the request within its limits. The number is limited so that the
// offset of the page is still a number.
func (r PageRequest) Normal() PageRequest {
	if r.Size == 0 {
		r.Size = DefaultPageSize
	}
	r.Size = min(max(r.Size, 1), MaxPageSize)
	r.Number = min(max(r.Number, 1), 1<<30)
	return r
}

// Offset is how many records come before the page.
func (r PageRequest) Offset() int { return (r.Number - 1) * r.Size }

// NewPage is the page of r, which is normal, in a list of total records.
func NewPage[T any](r PageRequest, objects []T, total int, took time.Duration) Page[T] {
	if objects == nil {
		objects = []T{}
	}
	return Page[T]{Success: true, PageNumber: r.Number, PageSize: r.Size, TotalPages: (total + r.Size - 1) / r.Size,
		TotalRecords: total, Objects: objects, TotalMS: took.Milliseconds()}
}

// DeletedMany is the answer of every verb that deletes a list of ids.
type DeletedMany struct {
	Status  string // Deleted, PartiallyDeleted or NoneDeleted
	Deleted int
	Skipped []Skipped
}

// Skipped is an id that was not deleted.
type Skipped struct {
	ID     string `json:"Id"`
	Reason Code
}

// DeleteMany tells what became of ids of which gone were deleted. An id that
// stands twice was there once.
func DeleteMany(ids, gone []string, otherwise Code) DeletedMany {
	left := map[string]int{}
	for _, id := range gone {
		left[id]++
	}
	out := DeletedMany{Status: "Deleted", Deleted: len(gone), Skipped: []Skipped{}}
	for _, id := range ids {
		if left[id] > 0 {
			left[id]--
			continue
		}
		out.Skipped = append(out.Skipped, Skipped{ID: id, Reason: otherwise})
	}
	switch {
	case len(gone) == 0:
		out.Status = "NoneDeleted"
	case len(out.Skipped) > 0:
		out.Status = "PartiallyDeleted"
	}
	return out
}

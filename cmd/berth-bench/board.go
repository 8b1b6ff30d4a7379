package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	values "berth/broker"
	"berth/broker/native/board"
	"berth/journal"
)

// boardSizes are the numbers of notes on the boards that are read.
var boardSizes = []int{100, 100_000}

// boardPosters post at once while a board is filled.
const boardPosters = 256

// boardResult is one read of a small board and of a large one.
type boardResult struct {
	what string
	took []time.Duration // by boardSizes; medians
}

// measureBoard reads boards of several sizes in a journal on the disk.
func measureBoard(ctx context.Context, l *lab, r *report) error {
	r.board = []boardResult{{what: "the latest 50 notes"}, {what: "20 notes after a time in the middle"}, {what: "the banner of one with two wakes"}}
	for _, size := range boardSizes {
		if err := readBoard(ctx, l, r, size); err != nil {
			return err
		}
	}
	return nil
}

func readBoard(ctx context.Context, l *lab, r *report, size int) (err error) {
	j, err := journal.Open(filepath.Join(l.dir, fmt.Sprintf("board-%d.db", size)), journal.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	began := time.Now()
	b := board.New(board.Options{Store: j, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	who := board.Caller{Principal: values.LocalOperator}
	post := func(n int, to string) error {
		c := who
		c.Now = began.Add(time.Duration(n-size) * time.Millisecond)
		_, err := b.Post(ctx, c, board.Draft{Content: "the vessel is free", AuthorName: "no key", ToParticipantKey: to})
		return err
	}
	failed := make(chan error, boardPosters)
	var posting sync.WaitGroup
	for p := range boardPosters {
		posting.Go(func() {
			for n := p; n < size; n += boardPosters {
				if err := post(n, []string{"", "busy"}[n%2]); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	posting.Wait()
	for range 2 {
		if err := post(size/2, "quiet"); err != nil {
			return err
		}
	}
	select {
	case err := <-failed:
		return err
	default:
	}
	who.Now = time.Now()
	for i, read := range []func() error{
		func() error { _, err := b.Read(who, board.Query{}); return err },
		func() error {
			_, err := b.Read(who, board.Query{Limit: 20, After: began.Add(-time.Duration(size/2) * time.Millisecond)})
			return err
		},
		func() error { _, err := b.Banner(who.Principal, "quiet", board.VerbMark); return err },
	} {
		took := make([]time.Duration, 0, catalogRuns)
		for range catalogRuns {
			from := time.Now()
			if err := read(); err != nil {
				return err
			}
			took = append(took, time.Since(from))
		}
		slices.Sort(took)
		r.board[i].took = append(r.board[i].took, took[len(took)/2])
	}
	return nil
}

func (r *report) boardTable(b *strings.Builder) {
	if len(r.board) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### The coordination board\n\nBoards of %d and of %d notes, half of them to one participant; medians of %d runs.\n\n| read | small | large | large / small |\n|---|---|---|---|\n", boardSizes[0], boardSizes[1], catalogRuns)
	for _, c := range r.board {
		fmt.Fprintf(b, "| %s | %v | %v | %.2f |\n", c.what, c.took[0].Round(time.Microsecond), c.took[1].Round(time.Microsecond), float64(c.took[1])/float64(c.took[0]))
	}
}

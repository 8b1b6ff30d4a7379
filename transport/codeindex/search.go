//go:build unix

package codeindex

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"berth/broker/native/codeindex"
)

// maxCandidates is how many chunks each way of looking gives at most; those that
// the full-text table finds most fitting are scored.
const maxCandidates = 150

// Search finds chunks in three ways: those that define a name which the query
// may spell, those that have all of its terms, and, when these are too few, those
// that have any. All are scored by the same rules.
func (e *Engine) Search(ctx context.Context, vesselID string, q *codeindex.Query, only codeindex.Filter) ([]codeindex.Hit, codeindex.Built, error) {
	r, release, err := e.acquire(vesselID)
	if err != nil {
		return nil, codeindex.Built{}, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, searchLimit)
	defer cancel()
	s := search{db: r.db, q: q, only: only, seen: map[int64]bool{}}
	if err := s.run(ctx); err != nil {
		return nil, codeindex.Built{}, e.spoilt(vesselID, fmt.Errorf("search the index: %w", err))
	}
	slices.SortFunc(s.hits, codeindex.Better)
	return s.hits[:min(len(s.hits), only.Limit)], r.meta.built(), nil
}

type search struct {
	db   *sql.DB
	q    *codeindex.Query
	only codeindex.Filter
	seen map[int64]bool // chunks that were looked at
	hits []codeindex.Hit
}

func (s *search) run(ctx context.Context) error {
	if len(s.q.Terms) == 0 {
		return nil
	}
	names := make([]any, len(s.q.Names))
	for i, n := range s.q.Names {
		names[i] = n
	}
	if err := s.look(ctx, "SELECT n.chunk AS id FROM names n", "n.chunk", "n.name IN (?"+strings.Repeat(",?", len(names)-1)+")", "", 2*maxCandidates, names...); err != nil {
		return err
	}
	const byTerms = "SELECT t.rowid AS id FROM terms t"
	if err := s.look(ctx, byTerms, "t.rowid", "t.terms MATCH ?", "ORDER BY t.rank", maxCandidates, s.match(" ")); err != nil {
		return err
	}
	if len(s.q.Terms) == 1 || len(s.hits) >= max(s.only.Limit, 10) {
		return nil
	}
	return s.look(ctx, byTerms, "t.rowid", "t.terms MATCH ?", "ORDER BY t.rank", maxCandidates, s.match(" OR "))
}

// match is the query in the language of the full-text table. A term has no
// quotation mark.
func (s *search) match(between string) string {
	var b strings.Builder
	for i, t := range s.q.Terms {
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(`"` + t + `"`)
	}
	return b.String()
}

// look scores the chunks that one way of looking finds. The texts are read of
// those alone that are left at its end.
func (s *search) look(ctx context.Context, ids, id, where, order string, limit int, args ...any) error {
	if !s.only.Reference {
		where += " AND " + id + " > 0"
	}
	if s.only.PathPrefix != "" || s.only.Language != "" {
		ids += " JOIN chunks x ON x.id = " + id + " JOIN files y ON y.id = x.file"
	}
	if p := s.only.PathPrefix; p != "" {
		where += " AND substr(y.path, 1, length(?)) = ?"
		args = append(args, p, p)
	}
	if l := s.only.Language; l != "" {
		where += " AND y.language = ?"
		args = append(args, l)
	}
	rows, err := s.db.QueryContext(ctx, "SELECT c.id, f.path, f.language, f.test, c.first, c.last, c.defines, c.content FROM ("+
		ids+" WHERE "+where+" "+order+" LIMIT "+itoa(limit)+") i JOIN chunks c ON c.id = i.id JOIN files f ON f.id = c.file", args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err below says what went wrong
	for rows.Next() {
		var id int64
		var h codeindex.Hit
		var test bool
		var defines string
		if err := rows.Scan(&id, &h.Path, &h.Language, &test, &h.Start, &h.End, &defines, &h.Content); err != nil {
			return err
		}
		if s.seen[id] {
			continue
		}
		s.seen[id] = true
		h.ReferenceOnly = id < 0
		h.Score = s.q.Score(codeindex.Candidate{Path: h.Path, Content: h.Content, Defines: strings.Fields(defines), Test: test})
		if h.Score > 0 {
			s.hits = append(s.hits, h)
		}
	}
	return cmp.Or(rows.Err(), ctx.Err())
}

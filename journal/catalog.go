package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"go.etcd.io/bbolt"

	"berth/broker"
)

// maxCatalog is the size of one stored catalog.
const maxCatalog = 32 << 20

// catalogRow is a catalog as it is stored. Raw JSON stands in it as bytes
// (base64), because an encoder changes white space and escapes of raw JSON and
// a tool's entry has to come back byte for byte.
type catalogRow struct {
	Backend      string         `json:"backend"`
	Origin       string         `json:"origin,omitempty"`
	At           time.Time      `json:"at"`
	Protocol     string         `json:"protocol,omitempty"`
	Info         []byte         `json:"info,omitempty"`
	Capabilities []byte         `json:"capabilities,omitempty"`
	Instructions string         `json:"instructions,omitempty"`
	Tools        []toolRow      `json:"tools"`
	Told         []string       `json:"told,omitempty"`
	Costs        map[string]int `json:"costs,omitempty"`
}

type toolRow struct {
	Name string `json:"name"`
	Raw  []byte `json:"raw"`
}

// SaveCatalog keeps the last catalog of a backend, in place of the one before,
// and writes what is told of the change, in one transaction.
func (j *Journal) SaveCatalog(ctx context.Context, c broker.StoredCatalog, events ...broker.Event) error {
	if c.Backend == "" || len(c.Backend) > maxName || !utf8.ValidString(c.Backend) {
		return errors.New("save a catalog: it needs the name of its backend")
	}
	row := catalogRow{Backend: c.Backend, Origin: c.Origin, At: utc(c.At), Protocol: c.Server.ProtocolVersion,
		Info: c.Server.Info, Capabilities: c.Server.Capabilities, Instructions: c.Server.Instructions, Told: c.Told, Costs: c.Costs}
	for _, t := range c.Tools {
		row.Tools = append(row.Tools, toolRow{t.Name, t.Raw})
	}
	var buf bytes.Buffer
	if err := encodeJSON(&buf, row); err != nil {
		return fmt.Errorf("save the catalog of %s: %w", c.Backend, err)
	}
	if buf.Len() > maxCatalog {
		return fmt.Errorf("save the catalog of %s: %d bytes, and a catalog may have %d", c.Backend, buf.Len(), maxCatalog)
	}
	size := buf.Len()
	for i := range events {
		if err := j.appendable(&events[i]); err != nil {
			return err
		}
		size += eventSize(events[i])
	}
	return j.do(ctx, &write{size: size, apply: func(t *txn) error {
		for _, e := range events {
			if _, err := t.append(e); err != nil {
				return err
			}
		}
		return t.put(bucketCatalogs, []byte(c.Backend), buf.Bytes())
	}}, false)
}

// Catalogs gives the stored catalogs, sorted by backend. When some cannot be
// decoded it gives the others and an error that wraps ErrUnreadable.
func (j *Journal) Catalogs() ([]broker.StoredCatalog, error) {
	var out []broker.StoredCatalog
	var bad []error
	err := j.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketCatalogs).ForEach(func(k, v []byte) error {
			c, err := decodeCatalog(string(k), v)
			if err != nil {
				bad = append(bad, err)
				return nil
			}
			out = append(out, c)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list the stored catalogs: %w", err)
	}
	return out, errors.Join(bad...)
}

func decodeCatalog(backend string, raw []byte) (broker.StoredCatalog, error) {
	var row catalogRow
	if err := json.Unmarshal(raw, &row); err != nil {
		return broker.StoredCatalog{}, fmt.Errorf("the catalog of %s: %w: %w", backend, ErrUnreadable, err)
	}
	if row.Backend != backend {
		return broker.StoredCatalog{}, fmt.Errorf("the catalog of %s: %w: it names another backend", backend, ErrUnreadable)
	}
	c := broker.StoredCatalog{Backend: row.Backend, Origin: row.Origin, At: row.At, Server: broker.ServerInfo{
		ProtocolVersion: row.Protocol, Info: row.Info, Capabilities: row.Capabilities, Instructions: row.Instructions}, Told: row.Told, Costs: row.Costs}
	for _, t := range row.Tools {
		c.Tools = append(c.Tools, broker.Tool{Name: t.Name, Raw: t.Raw})
	}
	return c, nil
}

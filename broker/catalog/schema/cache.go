package schema

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
)

// The bounds of one half of a Cache: schemas, and bytes of their texts.
const (
	cacheSchemas = 1 << 13
	cacheBytes   = 32 << 20
)

// Cache remembers what became of schemas that were compiled, so that building a
// registry anew costs only what is new in it. It has two halves: when one is
// full the one that was not looked at is dropped. It is safe for concurrent use;
// its lock is never held while a schema is compiled. A nil Cache remembers nothing.
type Cache struct {
	mu       sync.Mutex
	now, old map[[sha256.Size]byte]compiled
	bytes    int // of now
}

type compiled struct {
	schema *Schema
	err    error
	size   int
}

// Compile is the package's Compile, once for each text.
func (c *Cache) Compile(raw json.RawMessage) (*Schema, error) {
	if c == nil {
		return Compile(raw)
	}
	key := sha256.Sum256(raw)
	c.mu.Lock()
	known, ok := c.now[key]
	if !ok {
		if known, ok = c.old[key]; ok {
			c.put(key, known)
		}
	}
	c.mu.Unlock()
	if ok {
		return known.schema, known.err
	}
	s, err := Compile(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(key, compiled{s, err, len(raw)})
	return s, err
}

func (c *Cache) put(key [sha256.Size]byte, v compiled) {
	if _, known := c.now[key]; known {
		return
	}
	if c.now == nil || len(c.now) >= cacheSchemas || c.bytes+v.size > cacheBytes {
		c.old, c.now, c.bytes = c.now, map[[sha256.Size]byte]compiled{}, 0
	}
	c.now[key] = v
	c.bytes += v.size
}

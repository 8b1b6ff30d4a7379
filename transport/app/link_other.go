//go:build !unix

package app

import "net"

// hasEnded cannot be told here without reading; the request will.
func hasEnded(net.Conn) bool { return false }

package events

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The wire protocol of ZeroMQ, ZMTP 3.0 (rfc.zeromq.org/spec/23), with the NULL mechanism: a greeting, a READY
// command from each side, then frames. Newer peers fall back to it.

// Flags of a frame.
const (
	flagMore    = 1 // the message goes on with another frame
	flagLong    = 2 // the length takes eight bytes, not one
	flagCommand = 4
)

// handshakeTime is how long a peer may take to greet.
const handshakeTime = 10 * time.Second

// maxFrame bounds what a peer may send that is no batch: subscriptions and sequence numbers, which are short.
const maxFrame = 64 << 10

// greeting is what each side sends first: a signature, the version, the mechanism, and that the mechanism has no
// server.
func greeting() []byte {
	b := make([]byte, 64)
	b[0], b[9] = 0xff, 0x7f
	b[10], b[11] = 3, 0
	copy(b[12:32], "NULL")
	return b
}

// peer is a connection after its handshake.
type peer struct {
	conn net.Conn
	in   *bufio.Reader
	kind string // the peer's type of socket
	most uint64 // bytes of a frame
}

// shake greets a new connection as a socket of a type, and wants the other side to be of one of the types.
func shake(conn net.Conn, kind string, wanted ...string) (*peer, error) {
	conn.SetDeadline(time.Now().Add(handshakeTime))
	p := &peer{conn: conn, in: bufio.NewReader(conn), most: maxFrame}
	if _, err := conn.Write(greeting()); err != nil {
		return nil, err
	}
	var theirs [64]byte
	if _, err := io.ReadFull(p.in, theirs[:]); err != nil {
		return nil, err
	}
	if theirs[0] != 0xff || theirs[9]&1 == 0 || theirs[10] < 3 {
		return nil, fmt.Errorf("events: a greeting % x; want ZMTP 3", theirs[:12])
	}
	if m := string(bytes.TrimRight(theirs[12:32], "\x00")); m != "NULL" {
		return nil, fmt.Errorf("events: the peer wants mechanism %q; want NULL", m)
	}
	ready := appendProperty([]byte("\x05READY"), "Socket-Type", kind)
	if err := p.write(time.Now().Add(handshakeTime), frame{flags: flagCommand, body: ready}); err != nil {
		return nil, err
	}
	f, err := p.read()
	if err != nil {
		return nil, err
	}
	name, data := f.command()
	if name != "READY" {
		return nil, fmt.Errorf("events: a frame of %d bytes (flags %d); want the command READY", len(f.body), f.flags)
	}
	if p.kind, err = property(data, "Socket-Type"); err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	for _, w := range wanted {
		if p.kind == w {
			return p, nil
		}
	}
	return nil, fmt.Errorf("events: the peer is a %s; want %v", p.kind, wanted)
}

// frame is part of a message, or a command.
type frame struct {
	flags byte
	body  []byte
}

// command returns the name and the data of a command; "" if it is none.
func (f frame) command() (name string, data []byte) {
	if f.flags&flagCommand == 0 || len(f.body) == 0 || len(f.body) < 1+int(f.body[0]) {
		return "", nil
	}
	n := 1 + int(f.body[0])
	return string(f.body[1:n]), f.body[n:]
}

// read reads a frame.
func (p *peer) read() (frame, error) {
	flags, err := p.in.ReadByte()
	if err != nil {
		return frame{}, err
	}
	if flags&^(flagMore|flagLong|flagCommand) != 0 {
		return frame{}, fmt.Errorf("events: a frame with flags %#x", flags)
	}
	var head [8]byte
	size := head[7:]
	if flags&flagLong != 0 {
		size = head[:]
	}
	if _, err := io.ReadFull(p.in, size); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint64(head[:])
	if n > p.most {
		return frame{}, fmt.Errorf("events: a frame of %d bytes; want at most %d", n, p.most)
	}
	f := frame{flags, make([]byte, n)}
	_, err = io.ReadFull(p.in, f.body)
	return f, err
}

// message reads the frames of the next message, and answers or skips commands. Other commands than PING are given to
// command.
func (p *peer) message(command func(name string, data []byte), pong func(frame)) ([][]byte, error) {
	var all [][]byte
	for {
		f, err := p.read()
		if err != nil {
			return nil, err
		}
		if f.flags&flagCommand != 0 {
			switch name, data := f.command(); {
			case name == "PING" && len(data) >= 2: // a time to live, and a context to be returned
				pong(frame{flagCommand, append([]byte("\x04PONG"), data[2:]...)})
			default:
				command(name, data)
			}
			continue
		}
		if all = append(all, f.body); f.flags&flagMore == 0 {
			return all, nil
		}
		if len(all) > maxFrames {
			return nil, fmt.Errorf("events: a message of more than %d frames", maxFrames)
		}
	}
}

// maxFrames bounds a message.
const maxFrames = 16

// write writes frames, all of them by a time.
func (p *peer) write(by time.Time, frames ...frame) error {
	var buf net.Buffers
	for _, f := range frames {
		var head []byte
		if n := len(f.body); n < 256 {
			head = []byte{f.flags, byte(n)}
		} else {
			head = binary.BigEndian.AppendUint64([]byte{f.flags | flagLong}, uint64(n))
		}
		buf = append(buf, head, f.body)
	}
	p.conn.SetWriteDeadline(by)
	_, err := buf.WriteTo(p.conn)
	return err
}

// message makes the frames of a message.
func message(parts ...[]byte) []frame {
	out := make([]frame, len(parts))
	for i, b := range parts {
		out[i] = frame{flagMore, b}
	}
	out[len(out)-1].flags = 0
	return out
}

// appendProperty appends a member of a READY command.
func appendProperty(b []byte, name, value string) []byte {
	b = append(append(b, byte(len(name))), name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// property returns a member of a READY command; names are compared without regard to case.
func property(b []byte, want string) (string, error) {
	short := errors.New("events: a READY command ends within a property")
	for len(b) > 0 {
		n := 1 + int(b[0])
		if len(b) < n+4 {
			return "", short
		}
		name, size := b[1:n], binary.BigEndian.Uint32(b[n:])
		b = b[n+4:]
		if uint64(size) > uint64(len(b)) {
			return "", short
		}
		if bytes.EqualFold(name, []byte(want)) {
			return string(b[:size]), nil
		}
		b = b[size:]
	}
	return "", fmt.Errorf("events: a READY command without %s", want)
}

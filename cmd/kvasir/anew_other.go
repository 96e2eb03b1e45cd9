//go:build !linux

package main

import (
	"errors"
	"net"
)

func keepSocket(net.Listener) (fd int, err error) { return -1, errors.ErrUnsupported }

func become(string, []string, int) error { return errors.ErrUnsupported }

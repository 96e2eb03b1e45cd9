package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// keepSocket returns another descriptor of a listener's socket.
func keepSocket(ln net.Listener) (fd int, err error) {
	c, ok := ln.(syscall.Conn)
	if !ok {
		return -1, fmt.Errorf("a %T has no socket", ln)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	failed := raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 3) })
	return fd, errors.Join(failed, err)
}

// become replaces the program of this process by one that has a socket and the standard streams, and no other
// descriptor: what a driver has opened would keep the memory of its device.
func become(program string, env []string, socket int) error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 && fd != socket {
			unix.CloseOnExec(fd)
		}
	}
	if _, err := unix.FcntlInt(uintptr(socket), unix.F_SETFD, 0); err != nil {
		return err
	}
	return unix.Exec(program, os.Args, env)
}

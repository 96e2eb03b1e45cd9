//go:build unix

package main

import (
	"os/exec"
	"syscall"
	"time"
)

// alone lets a command and all that it starts end together. They have half a minute.
func alone(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = 30 * time.Second
}

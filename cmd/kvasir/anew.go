package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// lossFlags say what becomes of a server that has lost a device for good; docs/gpu.md.
type lossFlags struct {
	OnLoss string `name:"on-device-loss" help:"What to do when a device is lost for good: restart starts the program anew in the same process, which keeps its socket, at most 3 times in 10 minutes; exit ends it with status 1; stay keeps /health at 503." enum:"restart,exit,stay" default:"restart"`
}

// A program starts itself anew at most mostAnew times within anewSpan. For what it closes before, it waits for
// --drain-timeout and anewPatience at most.
const (
	mostAnew     = 3
	anewSpan     = 10 * time.Minute
	anewPatience = 30 * time.Second
)

// lives is what a program hands on to the one that it becomes, in the environment variable livesVariable.
type lives struct {
	Process  int     `json:"process"` // that it is for: children of the process inherit the variable, too
	Socket   int     `json:"socket"`  // the descriptor of what it listens on
	File     string  `json:"file"`    // connectionFlags.file
	Restarts int     `json:"restarts"`
	Lately   []int64 `json:"lately"` // when these were, in Unix seconds, of the last anewSpan
}

const livesVariable = "KVASIR_STARTED_ANEW"

// formerLives takes what was handed on to this program, if anything was.
func formerLives() (l lives, err error) {
	said := os.Getenv(livesVariable)
	if said == "" {
		return lives{}, nil
	}
	if err := errors.Join(os.Unsetenv(livesVariable), json.Unmarshal([]byte(said), &l)); err != nil {
		return lives{}, fmt.Errorf("%s=%s: %w", livesVariable, said, err)
	}
	if l.Process != os.Getpid() {
		return lives{}, nil
	}
	return l, nil
}

// next returns what the program hands on if it is started anew now. It returns false if it was too often.
func (l *lives) next(now time.Time) (lives, bool) {
	n := lives{Process: os.Getpid(), Restarts: l.Restarts + 1, Lately: slices.Clone(l.Lately)}
	n.Lately = slices.DeleteFunc(n.Lately, func(at int64) bool { return now.Sub(time.Unix(at, 0)) > anewSpan })
	if len(n.Lately) >= mostAnew {
		return lives{}, false
	}
	n.Lately = append(n.Lately, now.Unix())
	return n, true
}

// losses decides what becomes of the server when a device is lost for good, and starts the program anew.
type losses struct {
	how   string // lossFlags.OnLoss
	lives lives  // of this program
	ln    net.Listener
	file  string // connectionFlags.file
	drain time.Duration
	log   *slog.Logger
	ctx   context.Context // ends when the program is told to
	end   func(error)     // ends the server

	mu   sync.Mutex
	why  error  // the server ends; nil: it does not
	next *lives // what is handed on; nil: the program is not started anew
}

// lost is engine.Config.Lost.
func (l *losses) lost(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why != nil || l.how == "stay" {
		return
	}
	if l.how == "restart" {
		if problem := l.prepare(); problem != nil {
			l.log.Error("the program is not started anew, and must be by hand", "because", problem)
			return
		}
		l.log.Error("the program is started anew, since a device is lost", "restarts", l.next.Restarts)
		guard.After(l.drain+anewPatience, l.become, func(err error) {
			l.log.Error("what the program closes takes too long, but it goes on", "because", err)
		})
	}
	l.why = fmt.Errorf("a device is lost: %w", err)
	l.end(l.why)
}

// prepare makes ready what is handed on. The socket stays open when the listener is closed: clients that connect
// meanwhile wait.
func (l *losses) prepare() error {
	next, ok := l.lives.next(time.Now())
	if !ok {
		return fmt.Errorf("it was started anew %d times within %v", mostAnew, anewSpan)
	}
	var err error
	if next.Socket, err = keepSocket(l.ln); err != nil {
		return err
	}
	next.File = l.file
	if u, ok := l.ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	signal.Ignore(syscall.SIGHUP) // by the next program, too, until it can read files again
	l.next = &next
	return nil
}

// restarting reports whether the server ends so that the program can be started anew.
func (l *losses) restarting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != nil
}

// settle does what is left to do once the server has ended with err: it starts the program anew, if that is due and it
// was not told to end.
func (l *losses) settle(err error) error {
	l.mu.Lock()
	why := l.why
	l.mu.Unlock()
	switch {
	case why == nil:
		return err
	case !l.restarting():
		return why
	}
	if err != nil && !errors.Is(err, why) {
		l.log.Warn("the server did not end well", "error", err)
	}
	if failed := l.become(); !errors.Is(failed, errTold) {
		return failed
	}
	return err
}

// errTold is why a program is not started anew that was told to end meanwhile.
var errTold = errors.New("the program was told to end")

// become starts the program anew. It returns why it does not.
func (l *losses) become() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	heedNoSignal()
	err := errTold
	if l.ctx.Err() == nil {
		handed, problem := json.Marshal(l.next)
		self, missing := os.Executable()
		if err = errors.Join(problem, missing); err == nil {
			err = become(self, append(os.Environ(), livesVariable+"="+string(handed)), l.next.Socket)
		}
		err = fmt.Errorf("the program could not be started anew: %w", err)
	}
	if l.file != "" {
		os.Remove(l.file)
	}
	return err
}

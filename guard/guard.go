// Package guard starts goroutines whose panics are errors, where they would otherwise end the process. The server and
// the program start no others.
package guard

import (
	"fmt"
	"runtime/debug"
)

// Go runs f on a goroutine and then calls ended there with its error, which is a *Panic if f panicked. ended must not
// panic.
func Go(f func() error, ended func(error)) {
	go func() { ended(run(f)) }()
}

func run(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{v, debug.Stack()}
		}
	}()
	return f()
}

// Panic is what a goroutine panicked with, and where.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }

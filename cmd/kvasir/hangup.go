package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// heedHangUps returns a channel of SIGHUP, which does not end the program from now on, until stop is called.
func heedHangUps() (hangUps chan os.Signal, stop func()) {
	hangUps = make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	return hangUps, func() {
		signal.Stop(hangUps)
		close(hangUps)
	}
}

// onHangUp calls reload for each signal, also for one that came before, until the channel is closed.
func onHangUp(hangUps <-chan os.Signal, log *slog.Logger, reload func()) {
	guard.Go(func() error {
		for range hangUps {
			if err := guard.Try(func() error { reload(); return nil }); err != nil {
				log.Error("files were not read again", "error", err)
			}
		}
		return nil
	}, func(error) {})
}

const (
	mostFile = 64 << 20         // bytes of a file of keys, certificates or settings
	fileTime = 10 * time.Second // for all of it to come
)

// readFile reads a file that may be read again while the program serves.
func readFile(path string) ([]byte, error) {
	return guard.ReadFile(path, mostFile, fileTime)
}

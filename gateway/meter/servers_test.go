package meter

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/internal/freeport"
)

// server is a real server of a store, which tests kill and start again.
type server struct {
	t    *testing.T
	url  string
	make func() *exec.Cmd
	cmd  *exec.Cmd
	said bytes.Buffer // by its processes
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = s.make()
	s.cmd.SysProcAttr = ownGroup(s.cmd.SysProcAttr)
	s.said.Reset()
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends a server at once, and waits until all its processes have ended: other than PostgreSQL's first one they are
// groups of their own and end when they notice, and while one is left, no other server can have its place. Wait returns
// once none has the pipe to `said` any more.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	s.cmd.Wait()
	s.cmd = nil
	if s.t.Failed() {
		s.t.Logf("the server said: %s", s.said.Bytes()[max(0, s.said.Len()-4096):])
	}
}

func ownGroup(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	if a == nil {
		a = &syscall.SysProcAttr{}
	}
	a.Setpgid = true
	return a
}

// absent skips a test whose server is not installed, and fails it where the machine should have it.
func absent(t *testing.T, what string) {
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed", what)
	}
	t.Skipf("%s is not installed (apt-get install redis-server postgresql)", what)
}

// redisServer starts a Redis that has written what it has answered.
func redisServer(t *testing.T) *server {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		absent(t, "redis-server")
	}
	port, dir := freeport.Port(t), t.TempDir()
	s := &server{t: t, url: "redis://127.0.0.1:" + port, make: func() *exec.Cmd {
		return exec.Command(program, "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	}}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// postgresServer starts a PostgreSQL, which does not run as root.
func postgresServer(t *testing.T) *server {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		absent(t, "postgresql")
	}
	bin := filepath.Dir(slices.Max(found))
	dir, err := os.MkdirTemp("", "kvasir-postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			absent(t, "the user postgres")
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	data := filepath.Join(dir, "data")
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir = dir
		if as != nil {
			own := *as
			cmd.SysProcAttr = &own
		}
		return cmd
	}
	if out, err := command("initdb", "-D", data, "-U", "kvasir", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := freeport.Port(t)
	s := &server{t: t, url: "postgres://kvasir@127.0.0.1:" + port + "/postgres", make: func() *exec.Cmd {
		os.Remove(filepath.Join(data, "postmaster.pid"))
		return command("postgres", "-D", data, "-p", port, "-k", dir)
	}}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// opened opens a store as soon as its server answers.
func opened(t *testing.T, url string) Store {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		s, err := Open(url)
		if err == nil {
			return s
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// onAll runs a test on every kind of store. again opens the same store a second time; it is nil if that cannot be.
func onAll(t *testing.T, f func(t *testing.T, s Store, again func() Store)) {
	t.Run("memory", func(t *testing.T) { f(t, opened(t, "memory:"), nil) })
	t.Run("sqlite", func(t *testing.T) { f(t, opened(t, "sqlite:"+filepath.Join(t.TempDir(), "a ?#.db")), nil) })
	for name, start := range map[string]func(*testing.T) *server{"redis": redisServer, "postgres": postgresServer} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			f(t, opened(t, s.url), func() Store { return opened(t, s.url) })
		})
	}
}

// value reads a counter, by a charge that changes nothing.
func value(t *testing.T, s Store, counter string) int64 {
	t.Helper()
	ctx := context.Background()
	var n int64
	var err error
	switch s := s.(type) {
	case *local:
		s.mu.Lock()
		defer s.mu.Unlock()
		if c := s.counters[counter]; c != nil {
			n = c.value
		}
	case *postgres:
		err = s.pool.QueryRow(ctx, "SELECT coalesce(max(value), 0) FROM kvasir.counters WHERE name = $1", counter).Scan(&n)
	case *redis:
		n, err = s.client.Do(ctx, s.client.B().Incrby().Key(redisPrefix+"c:"+counter).Increment(0).Build()).AsInt64()
	default:
		err = fmt.Errorf("%T", s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

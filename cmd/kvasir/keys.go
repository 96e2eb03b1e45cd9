package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/server"
)

// keyFlags say which keys requests must bring.
type keyFlags struct {
	APIKeys       []string `name:"api-key" sep:"none" help:"A key that requests must bring. May be repeated. Keys find no cached prefixes of each other's requests." env:"KVASIR_API_KEY" placeholder:"KEY"`
	APIKeyFile    string   `help:"A file of such keys with their names and limits, a JSON object to a line; read again on SIGHUP." placeholder:"FILE" type:"existingfile"`
	AdminKeys     []string `name:"admin-key" sep:"none" help:"A key for the routes that show or change the prefix cache and the adapters. May be repeated." env:"KVASIR_ADMIN_KEY" placeholder:"KEY"`
	AdminKeyFile  string   `help:"A file of such keys, one to a line." placeholder:"FILE" type:"existingfile"`
	SharePrefixes bool     `help:"Let requests with any API key find the cached prefixes of all others. A client can then find out what others asked."`
}

// check refuses an empty key, which would leave a server open that was meant to be closed.
func (f *keyFlags) check() error {
	for _, c := range []struct {
		keys      []string
		what, env string
	}{
		{f.APIKeys, "API key is empty (--api-key", "KVASIR_API_KEY"},
		{f.AdminKeys, "admin key is empty (--admin-key", "KVASIR_ADMIN_KEY"},
	} {
		if key, set := os.LookupEnv(c.env); slices.Contains(c.keys, "") || set && key == "" && len(c.keys) == 0 {
			return usageError{fmt.Sprintf("the %s, %s); leave both out for a server without", c.what, c.env)}
		}
	}
	return nil
}

// apply sets the keys of a server. dir is where the KV blocks lie that outlive the process, "" is nowhere.
func (f *keyFlags) apply(cfg *server.Config, dir string, log *slog.Logger) error {
	var err error
	if cfg.Keys, err = f.read(); err != nil {
		return err
	}
	cfg.AdminKeys, cfg.SharePrefixes = f.AdminKeys, f.SharePrefixes
	if f.AdminKeyFile != "" {
		data, err := readFile(f.AdminKeyFile)
		if err != nil {
			return fmt.Errorf("--admin-key-file: %w", err)
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" {
				cfg.AdminKeys = append(cfg.AdminKeys, line)
			}
		}
		if len(cfg.AdminKeys) == len(f.AdminKeys) {
			return fmt.Errorf("--admin-key-file: %s holds no key", f.AdminKeyFile)
		}
	}
	if dir != "" {
		cfg.Secret = cacheSecret(dir, log)
	}
	return nil
}

// read returns the API keys, of which those in the file may have changed.
func (f *keyFlags) read() ([]server.Key, error) {
	var keys []server.Key
	for _, key := range f.APIKeys {
		keys = append(keys, server.Key{Secret: key})
	}
	if f.APIKeyFile == "" {
		return keys, nil
	}
	data, err := readFile(f.APIKeyFile)
	if err != nil {
		return nil, fmt.Errorf("--api-key-file: %w", err)
	}
	more, err := server.ReadKeys(data)
	if err == nil && len(more) == 0 {
		err = errors.New("it holds no key")
	}
	if err != nil {
		return nil, fmt.Errorf("--api-key-file: %s: %w", f.APIKeyFile, err)
	}
	return append(keys, more...), nil
}

// reload puts the keys that are in the file now in place of the server's. If they are not good, those it has stay.
func (f *keyFlags) reload(s *server.Server, log *slog.Logger) {
	keys, err := f.read()
	if err == nil {
		err = s.SetKeys(keys)
	}
	if err != nil {
		log.Error("the API keys stay as they were", "error", err)
		return
	}
	log.Info("read the API keys again", "keys", len(keys))
}

// secretFile is the file, beside KV blocks on disk, of the secret that with an API key decides where the key's blocks
// are.
const secretFile = "prefixes.secret"

// cacheSecret returns the secret of a directory, which is made if it is not there. Nothing that is wrong with the file
// keeps a server from starting: blocks that were stored with another secret are only not found.
func cacheSecret(dir string, log *slog.Logger) []byte {
	path := filepath.Join(dir, secretFile)
	secret, err := readSecret(path)
	if err == nil {
		return secret
	}
	bad := errors.Is(err, errNoSecret)
	if bad {
		err = os.Rename(path, path+".aside")
		log.Warn("the secret of cached prefixes is of no use, and was renamed: what was stored for API keys is not found any more",
			"file", path, "to", path+".aside", "error", err)
	}
	secret = make([]byte, 32)
	rand.Read(secret)
	if bad && err == nil || errors.Is(err, fs.ErrNotExist) {
		err = writeSecret(path, secret)
	}
	if err != nil {
		log.Warn("the secret of cached prefixes cannot be kept: what is stored for API keys is not found after a restart", "file", path, "error", err)
	}
	return secret
}

// errNoSecret says that a file holds no secret.
var errNoSecret = errors.New("it does not hold 64 hexadecimal digits")

func readSecret(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNoSecret
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != 32 {
		return nil, errNoSecret
	}
	return secret, nil
}

// writeSecret makes the file of a secret: under another name first, so that it never has a part of one.
func writeSecret(path string, secret []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), secretFile+".new") // mode 0600, never through a link
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%x\n", secret)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

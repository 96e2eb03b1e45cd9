package meter

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Open opens the store that a URL names: memory:, sqlite:FILE, postgres://… or redis://… (rediss:// with TLS; Valkey is
// Redis here). sqlite: without a file is the one of the user, below XDG_STATE_HOME or ~/.local/state.
func Open(url string) (Store, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "memory":
		if rest == "" {
			return openLocal("")
		}
	case "sqlite":
		if rest == "" {
			home := os.Getenv("XDG_STATE_HOME")
			if home == "" {
				user, err := os.UserHomeDir()
				if err != nil {
					return nil, fmt.Errorf("meter: sqlite: names no file, and there is no home: %w", err)
				}
				home = filepath.Join(user, ".local", "state")
			}
			rest = filepath.Join(home, "kvasir", "gateway.db")
		}
		return openLocal(rest)
	case "postgres", "postgresql":
		return openPostgres(url)
	case "redis", "rediss":
		return openRedis(url)
	}
	return nil, CheckURL(url)
}

// CheckURL refuses what is no URL of a store.
func CheckURL(url string) error {
	scheme, rest, ok := strings.Cut(url, ":")
	switch {
	case !ok, scheme == "memory" && rest != "":
	case scheme == "memory", scheme == "sqlite":
		return nil
	case scheme == "postgres", scheme == "postgresql", scheme == "redis", scheme == "rediss":
		if strings.HasPrefix(rest, "//") && len(rest) > 2 {
			return nil
		}
	}
	return fmt.Errorf("meter: %.12q… is no store; want memory:, sqlite:FILE, postgres://… or redis://…", url)
}

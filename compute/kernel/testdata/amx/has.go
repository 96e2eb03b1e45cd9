//go:build amd64 && !noasm

package kernel

import _ "github.com/kvasir-llm/kvasir/internal/emulate"

var hasAMX = func() bool { return true }

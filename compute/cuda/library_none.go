//go:build (!(linux && (amd64 || arm64)) || nocuda) && !emulate

package cuda

import "errors"

func openLibrary() (library, error) {
	return nil, errors.New("this binary is built without CUDA: that takes Linux on amd64 or arm64, and no build tag nocuda")
}

#!/usr/bin/env bash
# Builds what is released into dist/: an archive for each system, .deb and .rpm for Linux, checksums. Needs Go, tar, zip
# and gzip. Usage: packaging/release.sh VERSION [SYSTEM/PROCESSOR …]
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "usage: packaging/release.sh VERSION [SYSTEM/PROCESSOR ...]" >&2; exit 2; }
version=${1#v}
shift
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
export CGO_ENABLED=0
root=$PWD/dist
rm -rf "$root"
mkdir -p "$root/tmp"
flags="-s -w -X main.release=v$version"
trim=${TRIM--trimpath} # TRIM= builds faster where other builds went before
go build -ldflags="$flags" -o "$root/tmp/kvasir" ./cmd/kvasir # of this machine, for what does not depend on one
"$root/tmp/kvasir" reference --format man | gzip -9n >"$root/tmp/kvasir.1.gz"
for shell in bash zsh fish; do "$root/tmp/kvasir" completion $shell >"$root/tmp/completion.$shell"; done
nfpm=(go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.1)

for target in "$@"; do
  system=${target%/*} processor=${target#*/} suffix=
  [ "$system" = windows ] && suffix=.exe
  name=kvasir-$version-$system-$processor
  folder=$root/tmp/$name
  mkdir -p "$folder"
  GOOS=$system GOARCH=$processor go build $trim -ldflags="$flags" -o "$folder/kvasir$suffix" ./cmd/kvasir
  cp LICENSE README.md "$folder"
  if [ "$system" = windows ]; then
    (cd "$root/tmp" && zip -qr "$root/$name.zip" "$name")
  else
    cp "$root"/tmp/kvasir.1.gz "$root"/tmp/completion.* "$folder"
    tar -C "$root/tmp" --owner=0 --group=0 -czf "$root/$name.tar.gz" "$name"
  fi
  if [ "$system" = linux ]; then
    pack=$root/tmp/pack-$processor
    mkdir -p "$pack"
    cp "$folder/kvasir" "$root"/tmp/kvasir.1.gz "$root"/tmp/completion.* "$pack"
    "$root/tmp/kvasir" version --sbom >"$pack/kvasir.cdx.json"
    cp "$pack/kvasir.cdx.json" "$root/$name.cdx.json"
    for packager in deb rpm; do
      ARCH=$processor VERSION=$version ROOT=$pack "${nfpm[@]}" package -f packaging/nfpm.yaml -p $packager -t "$root"
    done
  fi
done
rm -r "$root/tmp"
(cd "$root" && sha256sum -- * >SHA256SUMS)
ls -l "$root"

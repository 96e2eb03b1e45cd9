#!/bin/sh
# Measures how long kvasir and llama.cpp's server take from the start of their process to the first streamed token of
# /v1/completions, one after the other, for each GGUF file:
#
#     bench/start.sh path/to/kvasir path/to/llama-server model.gguf...
#
# Each file is read once before, so that it is in the page cache. ROUNDS (5) is how often each starts, THREADS (all) how
# many threads compute, and BEFORE another kvasir to start in turn with the two, or nothing. A line has the seconds to
# the first token, the processor time of the process until then, user and system, and the most memory that it had of
# its own (RssAnon) and with mapped files (VmHWM), in MB. Linux only.
set -eu
kvasir=$(realpath "$1")
llama=$(realpath "$2")
shift 2
threads=${THREADS:-$(nproc)}
port=${PORT:-9380}
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT INT TERM

# request: asks for a streamed completion; there is no output where the server is not there yet
request() {
    curl -sfN "http://127.0.0.1:$port/v1/completions" -H 'Content-Type: application/json' \
        -d '{"model":"start","prompt":"Once upon a time","max_tokens":8,"temperature":0,"stream":true}' 2>/dev/null
}

# first NAME: waits for the first token of an answer and prints what it took
first() {
    grep -q -m1 '"text"\|"content"' || return
    end=$(date +%s%N)
    awk -v name="$1" -v took=$((end - begin)) -v hz="$(getconf CLK_TCK)" '
        FILENAME ~ /stat$/ { user = $14 / hz; kernel = $15 / hz }
        /^RssAnon/ { own = $2 / 1024 }
        /^VmHWM/ { peak = $2 / 1024 }
        END { printf "%-10s %6.2f s, %.2f user + %.2f system, %.0f own, %.0f peak\n", name, took / 1e9, user, kernel, own, peak }
    ' "/proc/$pid/stat" "/proc/$pid/status"
}

# once NAME COMMAND...: starts a server, measures and ends it
once() {
    name=$1
    shift
    begin=$(date +%s%N)
    "$@" >"$dir/log" 2>&1 &
    pid=$!
    until request | first "$name"; do
        kill -0 "$pid" 2>/dev/null || {
            cat "$dir/log" >&2
            exit 1
        }
        sleep 0.005
    done
    kill "$pid"
    wait "$pid" 2>/dev/null || true
    pid=
}

for model; do
    echo "$model"
    cat "$model" >/dev/null
    for _ in $(seq "${ROUNDS:-5}"); do
        if [ -n "${BEFORE:-}" ]; then
            once before "$BEFORE" serve "$model" --served-model-name start --port "$port" --context 4096 --threads "$threads"
        fi
        once kvasir "$kvasir" serve "$model" --served-model-name start --port "$port" --context 4096 --threads "$threads"
        once llama.cpp "$llama" -m "$model" --port "$port" -c 4096 -np 1 -t "$threads"
    done
done

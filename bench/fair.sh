#!/bin/sh
# Measures what one greedy key does to others behind kvasir's gateway, in real time and over HTTP:
#
#     bench/fair.sh path/to/kvasir [folder]
#
# Two modelled engines have 16 slots each, and answers take 0.3 s to the first token and 50 ms for each of 20 more. Three
# keys ask at half of a quarter of that, first alone and then beside a fourth key at ten times its quarter. Their
# times to first tokens are printed for both. SECONDS_EACH changes how long each lasts.
set -eu
kvasir=$(realpath "$1")
dir=${2:-${TMPDIR:-/tmp}/kvasir-fair}
mkdir -p "$dir"
cd "$dir"
started=
trap 'for p in $started; do kill "$p" 2>/dev/null || true; done; wait' EXIT INT TERM

"$kvasir" bench null --engines 2 --port 9401 --slots 16 --ttft 300ms --tpot 50ms >engines.log 2>&1 &
started=$!
{
    echo 'listen: 127.0.0.1:9400'
    echo 'models:'
    echo '- {name: "null", endpoints: [{url: http://127.0.0.1:9401, max_in_flight: 16}, {url: http://127.0.0.1:9402, max_in_flight: 16}]}'
    echo 'keys:'
    for name in one two three greedy; do
        "$kvasir" gateway key create >"$name.txt"
        echo "- {name: $name, hash: '$(sed -n 's/^hash: *//p' "$name.txt")'}"
    done
} >fleet.yaml
"$kvasir" gateway --config fleet.yaml >gateway.log 2>&1 &
started="$! $started"
for _ in $(seq 50); do
    curl -sf -o health.txt http://127.0.0.1:9400/health && break
    sleep 0.1
done

lasts=${SECONDS_EACH:-120}
# load NAME RATE SEED FILE: asks with a key at a rate
load() {
    "$kvasir" bench load null --url http://127.0.0.1:9400/v1 --api-key "$(sed -n 's/^key: *//p' "$1.txt")" --rate "$2" \
        -n $(($2 * lasts)) --input 32 --output 21 --spread 0.9 --seed "$3" --json >"$4"
}

# round NAME: lets the three ask at 3 a second each; their share is 32 slots / 1.3 s / 4, about 6
round() {
    waited=
    seed=1
    for name in one two three; do
        load "$name" 3 $seed "$1-$name.json" &
        waited="$waited $!"
        seed=$((seed + 1))
    done
    for p in $waited; do wait "$p"; done
    for name in one two three; do
        echo "TTFT in ms, $1, $name: $(tr -d ' \n' <"$1-$name.json" | sed 's/.*"ttft[^{]*{\([^}]*\)}.*/\1/')"
    done
}

round alone
load greedy 61 4 greedy.json 2>greedy.log &
greedy=$!
round beside
wait "$greedy" || true

#!/bin/sh
# Measures what a request costs in kvasir's gateway and in others, one after another, on the same modelled engines:
#
#     bench/peers.sh path/to/kvasir [folder] [arguments of kvasir bench gateway, such as --json --sizes 1K,220K]
#
# sgl-router and LiteLLM's proxy come from PyPI, into environments of Python in the folder, once. A gateway that does
# not start is left out with a word. Engines, gateways and the load share the machine. SIZES, SECONDS_EACH and CLIENTS
# change the load.
set -eu
kvasir=$(realpath "$1")
dir=${2:-${TMPDIR:-/tmp}/kvasir-peers}
shift $(($# < 2 ? $# : 2))
mkdir -p "$dir"
cd "$dir"
started=
trap 'for p in $started; do kill "$p" 2>/dev/null || true; done; wait' EXIT INT TERM

# start NAME COMMAND...: runs a command with its output in NAME.log
start() {
    name=$1
    shift
    "$@" >"$name.log" 2>&1 &
    started="$! $started"
}

# venv NAME PACKAGE: makes an environment of Python with a package
venv() {
    [ -e "$1/ready" ] || { python3 -m venv "$1" && "$1/bin/pip" -q install "$2" && touch "$1/ready"; }
}

doors=
# door NAME PORT KEY: waits until a gateway answers a request, and measures it then
door() {
    for _ in $(seq 120); do
        if curl -sf -m 5 -o answer.json "http://127.0.0.1:$2/v1/chat/completions" -H 'Content-Type: application/json' \
            -H "Authorization: Bearer $3" -d '{"model":"null","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}'; then
            doors="$doors --door $1=127.0.0.1:$2=$3"
            return
        fi
        sleep 1
    done
    echo "$1 did not answer; see $dir/$1.log" >&2
}

engines="9301 9302 9303 9304"
start engines "$kvasir" bench null --engines 4 --port 9301 --tpot 1us

"$kvasir" gateway key create >key.txt
key=$(sed -n 's/^key: *//p' key.txt)
{
    echo 'listen: 127.0.0.1:9310'
    echo 'state: {url: "memory:"}'
    echo "keys: [{name: load, hash: \"$(sed -n 's/^hash: *//p' key.txt)\", limits: [{what: requests, per: 1m, most: 2000000000}]}]"
    echo 'models:'
    echo '- name: "null"'
    echo '  endpoints:'
    for p in $engines; do echo "  - http://127.0.0.1:$p"; done
} >kvasir.yaml
start kvasir "$kvasir" gateway --config kvasir.yaml
door kvasir 9310 "$key"

if venv sgl sglang-router; then
    workers=
    for p in $engines; do workers="$workers http://127.0.0.1:$p"; done
    # shellcheck disable=SC2086 # a list
    start sgl-router sgl/bin/python -m sglang_router.launch_router --host 127.0.0.1 --port 9320 --policy cache_aware \
        --prometheus-port 9321 --worker-urls $workers
    door sgl-router 9320 none
fi

if venv litellm 'litellm[proxy]'; then
    {
        echo 'model_list:'
        for p in $engines; do
            echo '- model_name: "null"'
            echo "  litellm_params: {model: openai/null, api_base: \"http://127.0.0.1:$p/v1\", api_key: none}"
        done
        echo 'litellm_settings: {num_retries: 0}'
        echo "general_settings: {master_key: sk-${key#kv-}}"
    } >litellm.yaml
    LITELLM_MODE=PRODUCTION LITELLM_LOCAL_MODEL_COST_MAP=True start litellm litellm/bin/litellm --config litellm.yaml --host 127.0.0.1 --port 9330
    door litellm 9330 "sk-${key#kv-}"
fi

# shellcheck disable=SC2086 # a list
"$kvasir" bench gateway --engine 127.0.0.1:9301 $doors --sizes "${SIZES:-1K,16K,220K}" --time "${SECONDS_EACH:-5}s" \
    --clients "${CLIENTS:-32}" "$@"

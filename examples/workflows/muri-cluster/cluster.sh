#!/bin/sh
# A master and four workers as separate processes on one machine; jobs are added and deleted while it runs.
#
#   ./cluster.sh [RESULTS]
#
# On real machines: `wharf head` on the master, `wharf worker --head HOST:PORT` on each node.
# Variables: WHARF (program), TIME_SCALE.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wharf=${WHARF:-wharf}
results=${1:-results}
scale=${TIME_SCALE:-60}
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
        [ "$tries" -lt 300 ] || { echo "cluster.sh: no \"$text\" from $*; see $results/*.log" >&2; exit 1; }
        sleep 0.2
    done
}

# The master, then workers 1 to 4.
"$wharf" head --home "$home" --listen 127.0.0.1:0 --allow-root --policy sjf-bsbf --set round_s=1 2>"$results/master.log" &
daemons=$!
until_prints policy "$wharf" policy show --home "$home"
for number in 1 2 3 4; do
    "$wharf" worker --home "$home" --node "worker-$number" --devices a6000:8 2>"$results/worker-$number.log" &
    daemons="$daemons $!"
    until_prints "worker-$number" "$wharf" nodes --home "$home"
done

# The set of jobs, at its times; beside it two more jobs, of which the second is deleted again.
export WHARF_HOME="$home"
"$wharf" submit --trace "$here/jobs.csv" --time-scale "$scale" --workdir "$home" --wait >"$results/jobs" &
jobs=$!
"$wharf" submit --trace "$here/more.csv" --time-scale "$scale" --workdir "$home" >"$results/more"
"$wharf" cancel "$(sed -n 2p "$results/more")"
wait "$jobs"
"$wharf" submit --wait --after-any "$(sed -n 1p "$results/more")" --workdir "$home" -- true
"$wharf" jobs --all --output plain >"$results/jobs.tsv"
"$wharf" report --to "$results/report.html"
cat "$results/jobs.tsv"

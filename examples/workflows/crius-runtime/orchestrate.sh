#!/bin/sh
# Runtime orchestration on one machine: one trace under three policies, with real processes beside the simulator's prediction.
#
#   ./orchestrate.sh [RESULTS]
#
# Variables: WHARF (program), POLICIES, ROUNDS, TIME_SCALE (60: an hour in a minute), INTERFACE (network interface of all workers).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wharf=${WHARF:-wharf}
results=${1:-results}
mkdir -p "$results"
for policy in ${POLICIES:-crius gavel fcfs}; do
    "$wharf" replay --policy "$policy" --set sched_with_opt=on --rounds "${ROUNDS:-72}" \
        --network-interface "${INTERFACE:-lo}" --trace "$here/runtime_trace.csv" --cluster "$here/cluster_spec.json" \
        --time-scale "${TIME_SCALE:-60}" --out "$results/$policy" >"$results/output_$policy.log"
    cat "$results/output_$policy.log"
done

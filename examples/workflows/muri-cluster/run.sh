#!/bin/sh
# A set of jobs under several schedulers, with real processes beside the simulator's prediction, on one machine.
#
#   ./run.sh [RESULTS]
#
# Variables: WHARF (program), SETUPS (cluster file), JOBS (trace), SCHEDULERS (by their names there or here), SCHEDULE_INTERVAL (seconds of
# a round), TIME_SCALE (60: an hour in a minute).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wharf=${WHARF:-wharf}
results=${1:-results}
mkdir -p "$results"
for scheduler in ${SCHEDULERS:-fifo Tiresias sjf-bsbf multi-resource-blossom-same-gpu}; do
    "$wharf" replay --policy "$scheduler" --set round_s="${SCHEDULE_INTERVAL:-60}" --trace "${JOBS:-$here/jobs.csv}" \
        --cluster "${SETUPS:-$here/n4g8.csv}" --time-scale "${TIME_SCALE:-60}" --out "$results/$scheduler" >"$results/$scheduler.log"
    cat "$results/$scheduler.log"
done

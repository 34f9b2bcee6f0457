#!/bin/sh
# Eight small training jobs on the Slurm that is here, through pilots. Nothing is left behind but their output.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wharf=${WHARF:-wharf}
gpus=${GPUS:-0}
head=${HEAD:-$(hostname):7717}
export WHARF_HOME="${WHARF_HOME:-$HOME/wharf-pilots}"
export TRAINER="$here/../trainers/linear.py"
mkdir -p "$WHARF_HOME/out"

"$wharf" head --listen "${LISTEN:-0.0.0.0:${head##*:}}" &
daemons=$!
# Those that have ended already are no failure.
trap 'kill $daemons 2>/dev/null || true; wait || true' EXIT
until "$wharf" nodes > /dev/null 2>&1; do sleep 0.2; done

# Two pilots at most, half an hour each; they end when they have been idle for some seconds.
set -- --head "$head" --max 2 --time-limit 30m --idle-timeout "${IDLE:-10s}" --interval 1s ${PARTITION:+--partition "$PARTITION"}
if [ "$gpus" -gt 0 ]; then set -- "$@" --gpus "$gpus"; else set -- "$@" --cpus 2; fi
"$wharf" pilot slurm "$@" &
pilots=$!
daemons="$pilots $daemons"

cd "$WHARF_HOME"
"$wharf" submit --wait "$here/job.yaml" > /dev/null
"$wharf" jobs --all
"$wharf" pilot status

# Ends the pilots that are left, and with them their workers.
kill "$pilots"
wait "$pilots" || true
tail -n 1 out/*.txt

# A task of the chaos test: task.sh FOLDER KIND TENTHS CODE
#
# It holds locks of its job and rank and of its devices while it runs, and tells a ledger what it does. `plain` runs TENTHS tenths of a second and
# exits with CODE; `again` does so with CODE until its third run, which succeeds; `broken` fails on rank 1 only, while the others go on;
# `train` tells how far it is, saves when it is told to stop, and goes on from there.
folder=$1 kind=$2 tenths=$3 code=$4
say() { printf '%s %s %s %s\n' "$1" "$WHARF_JOB_ID" "$NODE_RANK" "$WHARF_GENERATION" >> "$folder/ledger"; }
own=$folder/$WHARF_JOB_ID.$NODE_RANK

exec 9> "$own.lock"
flock -n 9 || { say double; exit 99; }
fd=5
for device in $(echo "$WHARF_DEVICES" | tr , ' '); do
  eval "exec $fd> \"$folder/$WHARF_NODE.$device.device\""
  flock -n $fd || say shared
  fd=$((fd + 1))
done
# Commands that do not keep the locks when the task is killed.
apart() { "$@" 5>&- 6>&- 7>&- 8>&- 9>&-; }
say start
echo "begin $WHARF_GENERATION"

train() {
  trap : TERM
  # No command that a signal could end.
  done=0
  [ ! -f "$own.saved" ] || read -r done < "$own.saved"
  while [ "$done" -lt "$tenths" ]; do
    apart sleep 0.2
    done=$((done + 2))
    # A signal to the group ends also the command that asks, which is therefore asked again.
    until apart "$WHARF" step "$done" --total "$tenths" --checkpointed "$done"; answer=$?; [ $answer -le 10 ]; do :; done
    if [ $answer = 10 ]; then
      echo "$done" > "$own.saved"
      say stopped
      exit 0
    fi
  done
}

work() {
  trap 'say stopped; exit 143' TERM
  line=0
  while [ "$line" -lt "$tenths" ]; do
    echo "line $line"
    line=$((line + 1))
    apart sleep 0.1
  done
}

case $kind in
  train) train ;;
  *) work ;;
esac
if [ "$kind" = again ]; then
  echo run >> "$own.runs"
  [ "$(wc -l < "$own.runs")" -lt 3 ] || code=0
fi
if [ "$kind" = broken ] && [ "$NODE_RANK" != 1 ]; then
  tenths=600
  work
fi
echo last
say end
exit "$code"

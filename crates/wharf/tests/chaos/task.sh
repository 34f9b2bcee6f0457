# A task of the chaos test: task.sh FOLDER KIND TENTHS CODE
#
# It holds a lock of its job and rank while it runs, and tells a ledger what it does. `plain` runs TENTHS tenths of a second and
# exits with CODE; `again` does so with CODE until its third run, which succeeds; `broken` fails on rank 1 only, while the others go on;
# `train` tells how far it is, saves when it is told to stop, and goes on from there.
folder=$1 kind=$2 tenths=$3 code=$4
say() { printf '%s %s %s %s\n' "$1" "$WHARF_JOB_ID" "$NODE_RANK" "$WHARF_GENERATION" >> "$folder/ledger"; }
own=$folder/$WHARF_JOB_ID.$NODE_RANK

exec 9> "$own.lock"
flock -n 9 || { say double; exit 99; }
say start
echo "begin $WHARF_GENERATION"

train() {
  trap : TERM
  done=$(cat "$own.saved" 2> "$own.none" || echo 0)
  while [ "$done" -lt "$tenths" ]; do
    sleep 0.2 9>&-
    done=$((done + 2))
    # A signal to the group ends also the command that asks, which is therefore asked again.
    until "$WHARF" step "$done" --checkpointed "$done" 9>&-; answer=$?; [ $answer -le 10 ]; do :; done
    if [ $answer = 10 ] && [ "$done" -lt "$tenths" ]; then
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
    sleep 0.1 9>&-
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

# Stands for a profiler: adds what it measured to the database, and writes a result of its own.
set -e
while getopts m:b: option; do
    case $option in
    m) model=$OPTARG ;;
    b) batch=$OPTARG ;;
    *) exit 2 ;;
    esac
done
echo "$model $batch" >> /app/jax/prof_database/operators
passes=$(wc -l < /app/jax/prof_database/operators)
echo "batch $batch: pass $passes of this node" > "/app/jax/profile_result/$model-$batch"
echo "profiled $model with $batch"

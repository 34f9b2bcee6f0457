#!/bin/sh
# Fills the template, brings the cluster up, runs a job on all nodes: cluster.sh FOLDER [WORKERS]
set -eu
cd "$1"
mkdir -p efs code
echo 'import os, torch; print(os.environ["WHARF_NODE"], "of", os.environ["WORLD_SIZE"], "with torch", torch.__version__)' > code/train.py

wharf cluster render cluster-template.yaml --set 'Cluster Name=training' --set "Number of Workers=${2:-2}" \
  --set "Shared Folder=$PWD/efs" --to cluster.yaml
wharf up cluster.yaml --check
wharf up cluster.yaml
wharf cluster status cluster.yaml

# In place of `git clone` below ~/efs: every node sees it.
wharf rsync-up cluster.yaml code efs/code
wharf cluster exec cluster.yaml --all -- ls efs/code

# A job with a process on every node. The launcher says itself where its client's folder is.
WHARF_HOME=${XDG_STATE_HOME:-$HOME/.local/state}/wharf/clusters/training/client
export WHARF_HOME
PYTHONPATH=$PWD/packages wharf submit --wait --gang "$((${2:-2} + 1))x1" --export PATH,PYTHONPATH \
  --output-file "$PWD/out-%n.txt" -- python3 "$PWD/efs/code/train.py"
cat out-*.txt

wharf down cluster.yaml --yes

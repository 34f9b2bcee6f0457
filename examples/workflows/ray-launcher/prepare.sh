#!/bin/sh
# Prepares one machine, as for an image: prepare.sh FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && cd "$1"
cp "$here"/*.yaml .

# Stand-ins for what is downloaded or built with a GPU.
mkdir -p packages/torch packages/apex nccl_2.7.8-1+cuda10.1_x86_64/lib
echo '__version__ = "stand-in"' > packages/torch/__init__.py
: > packages/apex/__init__.py
: > packages/amp_C.py
: > nccl_2.7.8-1+cuda10.1_x86_64/lib/libnccl.so.2
tar -cJf nccl_2.7.8-1+cuda10.1_x86_64.txz nccl_2.7.8-1+cuda10.1_x86_64

wharf up initial-cluster.yaml
# By hand: `wharf attach initial-cluster.yaml` is a shell there.
wharf rsync-up initial-cluster.yaml nccl_2.7.8-1+cuda10.1_x86_64.txz nccl.txz
wharf cluster exec initial-cluster.yaml -- 'mkdir -p ~/local/nccl && tar -xf ~/nccl.txz --strip-components=1 -C ~/local/nccl'
wharf cluster exec initial-cluster.yaml -- 'ls ~/local/nccl/lib; readlink ~/local/cuda; python3 -c "import apex, amp_C"; grep -c wharf-initial ~/.ssh/authorized_keys'
wharf down initial-cluster.yaml --yes

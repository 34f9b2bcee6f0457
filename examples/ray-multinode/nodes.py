"""A Ray driver that runs a task on every node of its cluster and states where they were."""

import os
import socket
import sys

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=1)
def visit():
    """Runs on the node that it is sent to."""
    return ray.get_runtime_context().get_node_id(), socket.gethostname()


def main():
    # Without an address Ray would take the one in RAY_ADDRESS, too; "auto" may find another user's cluster.
    ray.init(address=os.environ["RAY_ADDRESS"])
    nodes = [node for node in ray.nodes() if node["Alive"]]
    sent = [
        visit.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
        for node in nodes
    ]
    visited = set()
    for node, (node_id, host) in zip(nodes, ray.get(sent)):
        print(f"{node['NodeManagerAddress']}:{node['NodeManagerPort']} on {host} ran a task")
        visited.add(node_id)
    print(f"a task ran on each of {len(visited)} nodes", flush=True)
    return 0 if len(visited) == int(os.environ.get("WHARF_NODES", "1")) else 1


if __name__ == "__main__":
    sys.exit(main())

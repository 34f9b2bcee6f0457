"""dask-jobqueue against the cluster whose Slurm commands are first in PATH: workers in two jobs, tasks that depend on each other, a
failure, and the jobs' end with the cluster's."""

import subprocess
import time

from dask.distributed import Client
from dask_jobqueue import SLURMCluster


def fail():
    raise ValueError("on purpose")


def queued():
    listed = subprocess.check_output(["squeue", "-h", "-n", "dask-worker", "-o", "%i %T"], text=True)
    return listed.split("\n")[:-1]


def main():
    with SLURMCluster(
        queue="main", cores=1, memory="300MB", walltime="00:10:00", interface="lo", job_extra_directives=["-J dask-worker"]
    ) as cluster:
        cluster.scale(jobs=2)
        with Client(cluster) as client:
            client.wait_for_workers(2, timeout=120)
            squares = client.map(lambda number: number * number, range(10))
            assert client.submit(sum, squares).result() == 285
            try:
                client.submit(fail).result()
                raise AssertionError("it did not fail")
            except ValueError as error:
                assert "on purpose" in str(error)
            assert len(queued()) == 2, queued()
            cluster.scale(jobs=1)
            while len(queued()) != 1:
                time.sleep(0.1)
    deadline = time.monotonic() + 60
    while queued():
        assert time.monotonic() < deadline, queued()
        time.sleep(0.1)
    print("dask-jobqueue: done")


if __name__ == "__main__":
    main()

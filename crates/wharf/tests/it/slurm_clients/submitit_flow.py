"""submitit against the cluster whose Slurm commands are first in PATH: an array, a dependency, a failure, a cancelled job, and one
that is interrupted, saves its state and runs again."""

import pathlib
import subprocess
import sys
import time

import submitit


def square(number):
    return number * number


def fail():
    raise ValueError("on purpose")


class Counter:
    """Counts its starts; the first one runs until it is requeued."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0

    def __call__(self):
        self.count += 1
        (self.folder / f"started-{self.count}").touch()
        while self.count == 1:
            time.sleep(0.05)
        return self.count

    def checkpoint(self):
        return submitit.helpers.DelayedSubmission(self)


def until(what, condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def has_state(job, expected):
    job.watcher.update()
    return job.state.startswith(expected)


def main():
    folder = pathlib.Path.cwd()
    executor = submitit.AutoExecutor(folder=folder / "logs", cluster="slurm")
    executor.update_parameters(slurm_partition="main", cpus_per_task=1, timeout_min=5, slurm_array_parallelism=2)
    jobs = executor.map_array(square, range(5))
    assert [job.result() for job in jobs] == [0, 1, 4, 9, 16]
    for job in jobs:
        until(job, lambda: has_state(job, "COMPLETED"))

    after = submitit.AutoExecutor(folder=folder / "logs", cluster="slurm")
    dependency = {"dependency": f"afterok:{jobs[0].job_id}"}
    after.update_parameters(slurm_partition="main", timeout_min=5, slurm_additional_parameters=dependency)
    assert after.submit(square, 7).result() == 49

    failed = executor.submit(fail)
    assert "on purpose" in str(failed.exception())
    until(failed, lambda: has_state(failed, "FAILED"))

    endless = executor.submit(time.sleep, 600)
    until(endless, lambda: has_state(endless, "RUNNING"))
    endless.cancel(check=True)
    until(endless, lambda: has_state(endless, "CANCELLED"))

    counting = executor.submit(Counter(folder))
    until("the first run", (folder / "started-1").exists)
    subprocess.check_call(["scancel", counting.job_id, "--signal", "USR2"])
    assert counting.result() == 2
    print("submitit: done")


if __name__ == "__main__":
    sys.exit(main())

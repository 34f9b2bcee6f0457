"""simple_slurm against the cluster whose Slurm commands are first in PATH: an array, a dependency, a failure, a cancelled job."""

import datetime
import pathlib
import subprocess
import time

from simple_slurm import Slurm


def state(job):
    shown = subprocess.check_output(["sacct", "-X", "-n", "-P", "-j", str(job), "-o", "State"], text=True)
    return set(shown.split())


def until(job, expected):
    deadline = time.monotonic() + 60
    while state(job) != expected:
        assert time.monotonic() < deadline, (job, state(job))
        time.sleep(0.1)


def main():
    array = Slurm(
        array=range(3, 6),
        cpus_per_task=1,
        job_name="simple",
        partition="main",
        output=f"{Slurm.JOB_ARRAY_MASTER_ID}_{Slurm.JOB_ARRAY_ID}.out",
        time=datetime.timedelta(minutes=5),
    )
    first = array.sbatch("echo element " + Slurm.SLURM_ARRAY_TASK_ID)
    after = Slurm("--dependency", dict(afterok=first), "--output", "after.out", "--partition", "main")
    after.add_cmd("echo before")
    second = after.sbatch("echo after")
    until(first, {"COMPLETED"})
    until(second, {"COMPLETED"})
    assert [pathlib.Path(f"{first}_{index}.out").read_text() for index in range(3, 6)] == [
        f"element {index}\n" for index in range(3, 6)
    ]
    assert pathlib.Path("after.out").read_text() == "before\nafter\n"

    failed = Slurm(output="/dev/null", partition="main").sbatch("exit 3")
    until(failed, {"FAILED"})

    endless = Slurm(output="/dev/null", partition="main", job_name="endless")
    job = endless.sbatch("sleep 600")
    until(job, {"RUNNING"})
    endless.squeue.update_squeue()
    assert [listed["NAME"] for listed in endless.squeue.jobs.values()] == ["endless"], endless.squeue.jobs
    endless.scancel.cancel_job(job)
    until(job, {"CANCELLED"})
    print("simple_slurm: done")


if __name__ == "__main__":
    main()

"""parsl against the cluster whose Slurm commands are first in PATH: two blocks of workers started with srun, tasks that depend on each
other, a failure."""

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider


@parsl.python_app
def square(number):
    return number * number


@parsl.python_app
def total(inputs=()):
    return sum(inputs)


@parsl.python_app
def fail():
    raise ValueError("on purpose")


def main():
    provider = SlurmProvider(
        partition="main",
        nodes_per_block=1,
        cores_per_node=1,
        init_blocks=2,
        min_blocks=1,
        max_blocks=2,
        walltime="00:10:00",
        exclusive=False,
        launcher=SrunLauncher(),
    )
    executor = HighThroughputExecutor(
        label="slurm", address="127.0.0.1", max_workers_per_node=1, provider=provider, encrypted=False
    )
    with parsl.load(Config(executors=[executor], strategy="none", usage_tracking=0)):
        assert total(inputs=[square(number) for number in range(10)]).result(timeout=120) == 285
        try:
            fail().result(timeout=120)
            raise AssertionError("it did not fail")
        except ValueError as error:
            assert "on purpose" in str(error)
        blocks = executor.status()
        assert {status.state.name for status in blocks.values()} <= {"RUNNING", "PENDING"}, blocks
    print("parsl: done")


if __name__ == "__main__":
    main()

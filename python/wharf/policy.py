"""A user-defined scheduling policy, for ``wharf sim --policy ./mine.py`` and for a real cluster.

::

    from wharf.policy import Cluster, Decision, serve

    def schedule(cluster: Cluster, decision: Decision) -> None:
        for job in sorted(cluster.waiting, key=lambda job: job.remaining_s):
            decision.start(job)

    serve(schedule, knows="durations")

The function is called whenever something has happened: a job came, one ended, a node was lost, or a time has come that was asked
for with ``decision.wake_at``. What it starts without naming devices gets free ones, in this order, and waits where there
are none. Nothing has to be remembered between calls. Printing is safe: it goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional

__all__ = ["Cluster", "Decision", "Job", "Node", "Share", "serve"]

PROTOCOL = 1


class Share(NamedTuple):
    """Devices of one node, by their numbers."""

    node: int
    devices: List[int]


class Node:
    """A machine."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.id: int = said["id"]
        self.name: str = said["name"]
        self.device_type: str = said["device_type"]
        self.pool: str = said["pool"]
        self.switch: int = said["switch"]
        #: How many devices it has.
        self.devices: int = said["devices"]
        #: Whether jobs can be started there.
        self.up: bool = said["up"]
        #: Devices that no job has.
        self.free: List[int] = said["free"]


class Job:
    """A job that is not over: it waits, or it runs."""

    def __init__(self, said: Mapping[str, Any], cluster: "Cluster") -> None:
        self._said = said
        self._told_at = cluster.now
        self._cluster = cluster
        self.id: int = said["id"]
        self.name: str = said["name"]
        self.user: Optional[str] = said["user"]
        self.running: bool = said["state"] == "running"
        self.submit: float = said["submit"]
        #: Devices that it asks for, all or nothing, and the fewest and most that it can use.
        self.devices: int = said["devices"]
        self.devices_min: int = said["devices_min"]
        self.devices_max: int = said["devices_max"]
        #: Device types that it may run on, the best first; any where this is empty.
        self.device_types: List[str] = said["device_types"]
        self.priority: int = said["priority"]
        self.weight: float = said["weight"]
        self.deadline: Optional[float] = said["deadline"]
        self.model: Optional[str] = said["model"]
        self.batch_size: Optional[int] = said["batch_size"]
        self.preemptions: int = said["preemptions"]
        #: The devices that it has.
        self.placement: List[Share] = [Share(**share) for share in said["placement"]]
        #: Iterations a second on the gang it asks for, by device type.
        self.speeds: Dict[str, float] = said["speeds"]

    @property
    def waited_s(self) -> float:
        """Seconds since it was submitted."""
        return self._cluster.now - self.submit

    @property
    def attained_s(self) -> float:
        """Seconds that it has had devices for."""
        held = self._cluster.now - self._told_at if self.running else 0.0
        return float(self._said["attained_s"]) + held

    @property
    def done(self) -> float:
        """Iterations done so far."""
        since, each = self._said["runs_from"], self._said["iteration_s"]
        more = max(0.0, self._cluster.now - since) / each if since is not None and each else 0.0
        return float(self._said["done"]) + more

    @property
    def remaining_iterations(self) -> float:
        """Iterations that are left."""
        total = self._said["iterations"]
        if total is None:
            raise LookupError('lengths of jobs are available only on request: serve(..., knows="durations")')
        return max(0.0, float(total) - self.done)

    @property
    def remaining_s(self) -> float:
        """Seconds that are left on the gang it asks for, on the device type that suits it best."""
        speed = max(self.speeds.values(), default=0.0)
        return self.remaining_iterations / speed if speed > 0 else float("inf")


class Cluster:
    """What there is at the moment of a decision."""

    def __init__(self, seed: int, settings: Mapping[str, str]) -> None:
        self.now = 0.0
        #: For everything drawn at random, and what ``--set key=value`` says.
        self.seed = seed
        self.settings = settings
        self.nodes: Dict[int, Node] = {}
        self.jobs: Dict[int, Job] = {}

    def _update(self, said: Mapping[str, Any]) -> None:
        self.now = said["now"]
        self.nodes.update((node["id"], Node(node)) for node in said["nodes"])
        self.jobs.update((job["id"], Job(job, self)) for job in said["jobs"])
        for job in said["gone"]:
            self.jobs.pop(job, None)

    @property
    def waiting(self) -> List[Job]:
        """Jobs without devices, in the order of their submission."""
        return [job for _, job in sorted(self.jobs.items()) if not job.running]

    @property
    def running(self) -> List[Job]:
        """Jobs with devices, in the order of their submission."""
        return [job for _, job in sorted(self.jobs.items()) if job.running]

    def free(self, device_types: Iterable[str] = ()) -> int:
        """Free devices of these types, or of all."""
        types = set(device_types)
        nodes = (node for node in self.nodes.values() if node.up)
        return sum(len(node.free) for node in nodes if not types or node.device_type in types)


class Decision:
    """What is to change. First everything is stopped, then started in the order of the calls."""

    def __init__(self) -> None:
        self._stop: List[Dict[str, Any]] = []
        self._start: List[Dict[str, Any]] = []
        self._reasons: Dict[str, str] = {}
        self._wake_at: Optional[float] = None

    def start(
        self, job: Job, devices: Optional[int] = None, placement: Optional[Iterable[Share]] = None
    ) -> None:
        """Starts a job on free devices, as many as it asks for; on so many; or on exactly these."""
        entry: Dict[str, Any] = {"job": job.id}
        if devices is not None:
            entry["devices"] = devices
        if placement is not None:
            entry["placement"] = [{"node": node, "devices": list(numbers)} for node, numbers in placement]
        self._start.append(entry)

    def stop(self, job: Job, to: Optional[Job] = None) -> None:
        """Takes a job's devices back (it checkpoints and waits), because another one is to have them where that is told."""
        self._stop.append({"job": job.id} if to is None else {"job": job.id, "for": to.id})

    def explain(self, job: Job, why: str) -> None:
        """Sets the reason of a waiting job, for ``wharf explain``."""
        self._reasons[str(job.id)] = why

    def wake_at(self, time: float) -> None:
        """Asks to be called at this time even if nothing happens; the earliest such wish counts."""
        self._wake_at = time if self._wake_at is None else min(self._wake_at, time)

    def _answer(self) -> Dict[str, Any]:
        answer: Dict[str, Any] = {"stop": self._stop, "start": self._start, "reasons": self._reasons}
        if self._wake_at is not None:
            answer["wake_at"] = self._wake_at
        return answer


def serve(
    schedule: Callable[[Cluster, Decision], None],
    knows: str = "attained",
    settings: Optional[Iterable[str]] = None,
) -> None:
    """Answers Wharf's questions with this function until there are no more.

    :param knows: ``"attained"`` for what has happened so far, ``"durations"`` to be told how long jobs are, too.
    :param settings: the keys that ``--set`` may have; any where this is not given.
    """
    if knows not in ("attained", "durations"):
        raise ValueError(f'knows is "attained" or "durations", not {knows!r}')
    if sys.stdin.isatty():
        sys.exit(f"this is a policy for Wharf: wharf sim --policy {sys.argv[0]} ...")
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    # What a policy prints must not come between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = sys.stderr

    def say(answer: Mapping[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    cluster = Cluster(0, {})
    for line in sys.stdin:
        question = json.loads(line)
        if question["type"] == "hello":
            unknown = set(question["settings"]) - set(settings if settings is not None else question["settings"])
            if question["protocol"] != PROTOCOL:
                say({"error": f"this policy speaks protocol {PROTOCOL}, not {question['protocol']}"})
            elif unknown:
                known = ", ".join(sorted(settings or [])) or "none"
                say({"error": f"there is no setting {', '.join(sorted(unknown))}; there are: {known}"})
            else:
                cluster = Cluster(question["seed"], question["settings"])
                say({"protocol": PROTOCOL, "knows": knows})
        else:
            cluster._update(question)
            decision = Decision()
            schedule(cluster, decision)
            say(decision._answer())

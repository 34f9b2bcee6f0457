"""`python -m wharf.profiler`: what `wharf profile` talks to, in lines of JSON.

The first line on standard input states what is wanted. The answer is what can be measured; the next line states which of it, and in how many
rounds each; then comes a line for every measurement. What a user's file prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from typing import Any, Dict, List, Optional, TextIO

from .model import Plan, Stack, Wrong, load, samples


def main() -> int:
    # The user's prints must not come between answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    say = lambda message: print(json.dumps(message), file=answers, flush=True)
    try:
        request = json.loads(sys.stdin.readline())
        if request.get("host_devices"):
            _pretend(int(request["host_devices"]))
        _need_jax()
        if request["do"] == "capture":
            from .capture import describe

            name, model = load(request["model"])
            say({"description": describe(request.get("name") or name, model)})
        else:
            Session(request).run(say, sys.stdin)
    except Wrong as wrong:
        say({"wrong": str(wrong)})
        return 1
    return 0


def _pretend(count: int) -> None:
    """Lets XLA make so many devices out of this machine, each with a thread of its own."""
    flags = f"--xla_force_host_platform_device_count={count} --xla_cpu_multi_thread_eigen=false"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    os.environ["JAX_PLATFORMS"] = "cpu"


def _need_jax() -> None:
    try:
        import jax
    except ImportError as error:
        raise Wrong(f"{sys.executable} has no JAX ({error}): `{sys.executable} -m pip install jax`, or name another with --python")
    if not hasattr(jax, "shard_map"):
        raise Wrong(f"JAX {jax.__version__} has no jax.shard_map: `{sys.executable} -m pip install --upgrade jax`")


class Session:
    """Measurements of one model on the devices of this machine."""

    def __init__(self, request: Dict[str, Any]):
        import jax

        self.request = request
        self.devices = jax.devices()
        wanted = int(request.get("devices") or len(self.devices))
        if wanted > len(self.devices):
            kind = self.devices[0].platform
            hint = "; --host-devices makes more out of a CPU" if kind == "cpu" else ""
            raise Wrong(f"{wanted} devices are wanted, and there are {len(self.devices)} of {kind}{hint}")
        self.devices = self.devices[:wanted]
        self.name, self.model = load(request["model"]) if request.get("model") else ("", None)
        self.batch = int(request.get("batch") or (samples(self.model) if self.model else 0))
        self.ready: Dict[Any, Any] = {}
        self.tasks: List[Dict[str, Any]] = [task for what in request["what"] for task in self._tasks(what)]

    def _tasks(self, what: str) -> List[Dict[str, Any]]:
        if what == "collectives":
            from .collectives import tasks

            return tasks(len(self.devices))
        if self.model is None:
            raise Wrong(f"{what} are measured of a model: name it as FILE.py:FUNCTION")
        if what == "operators":
            from .operators import tasks as of_model

            return of_model(self.model, max(1, self.batch // len(self.devices)), len(self.devices))
        if what == "layers":
            from .layers import tasks as of_layers

            return of_layers(self.model, self.batch, len(self.devices), self._recompute()) if isinstance(self.model, Stack) else []
        return self._plans([Plan.parse(text) for text in self.request.get("plans", [])])

    def _plans(self, plans: List[Plan]) -> List[Dict[str, Any]]:
        from .operators import gradient
        from .walk import work

        refusals = [plan.refusal(self.model, self.batch, len(self.devices)) for plan in plans]
        for refusal in filter(None, refusals):
            raise Wrong(refusal)
        # The same for all: what a step of the whole batch has to do.
        amounts = work(gradient(self.model, self.batch)) if plans else {}
        return [{"kind": "plan", "plan": plan.name(), "devices": plan.devices(), **amounts} for plan in plans]

    def run(self, say: Any, requests: TextIO) -> None:
        shown = ("kind", "key", "plan", "devices", "operation", "groups", "elements", "times", "flop", "bytes", "is_product")
        tasks = [{name: task[name] for name in shown if name in task} for task in self.tasks]
        say({"tasks": tasks, "name": self.name, "batch": self.batch, "devices": len(self.devices), **self._about()})
        line = requests.readline()
        if not line:
            return
        wanted = json.loads(line)
        # Some may have been visited before.
        for turn in range(max(wanted["rounds"], default=0)):
            for index, rounds in zip(wanted["tasks"], wanted["rounds"]):
                if turn < rounds:
                    say({"task": index, "round": turn + 1, **self._measure(self.tasks[index])})

    def _measure(self, task: Dict[str, Any]) -> Dict[str, Any]:
        try:
            return {"seconds": self._seconds(task)}
        except Exception as error:  # whatever a backend throws: the other tasks can go on
            return {"failed": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"}

    def _seconds(self, task: Dict[str, Any]) -> float:
        if task["kind"] == "collective":
            from .collectives import seconds

            return seconds(task, self.devices, self.ready)
        if task["kind"] == "plan":
            return self._plan_seconds(task)
        if task["kind"] == "layer":
            from .layers import seconds as of_layer

            return of_layer(task, self.model, self._recompute(), self.devices, self.ready)
        from .operators import seconds as of_operator

        return of_operator(task, self.devices, self.ready)

    def _plan_seconds(self, task: Dict[str, Any]) -> float:
        from .plans import Runner
        from .timing import least_s

        if task["plan"] not in self.ready:
            plan = Plan.parse(task["plan"])
            self.ready[task["plan"]] = Runner(self.model, plan, self.batch, self._recompute(), self.devices)
        runner = self.ready[task["plan"]]
        # The state is made again on each visit: plans need not fit side by side.
        state, batch = runner.make()

        def step() -> Any:
            nonlocal state
            state, loss = runner.step(state, batch)
            return loss

        return least_s(step)

    def _recompute(self) -> bool:
        return not self.request.get("no_recompute")

    def _about(self) -> Dict[str, Any]:
        import jax
        import jaxlib

        kind = self.devices[0].device_kind
        return {
            "platform": self.devices[0].platform,
            "device_kind": kind,
            "machine": f"{platform.node()}: {len(self.devices)} x {kind}, {_processor()}, {os.cpu_count()} cores",
            "versions": f"Python {platform.python_version()}, jax {jax.__version__}, jaxlib {jaxlib.__version__}",
            "memory_gib": self._memory_gib(),
        }

    def _memory_gib(self) -> Optional[float]:
        """Of one device; devices of a CPU share the machine's."""
        told = (self.devices[0].memory_stats() or {}).get("bytes_limit")
        if told:
            return told / 2**30
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30 / len(self.devices)
        except (ValueError, OSError):
            return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    except OSError:
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())

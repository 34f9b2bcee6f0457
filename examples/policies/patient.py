#!/usr/bin/env python3
"""Shortest job first without starvation: a job that has waited long enough goes first, and others make room for it.

    wharf sim --trace jobs.csv --cluster 16x4 --policy ./examples/policies/patient.py,srtf --set patience_s=7200
"""

from wharf.policy import Cluster, Decision, Job, serve


def schedule(cluster: Cluster, decision: Decision) -> None:
    patience_s = float(cluster.settings.get("patience_s", "3600"))

    def order(job: Job):
        is_patient = job.waited_s < patience_s
        return (is_patient, job.remaining_s if is_patient else job.submit)

    waiting = sorted(cluster.waiting, key=order)
    first = waiting[0] if waiting else None
    if first and first.waited_s >= patience_s:
        # The longest jobs make room, until there is enough.
        missing = first.devices - cluster.free(first.device_types)
        for job in sorted(cluster.running, key=lambda job: -job.remaining_s):
            if missing > 0 and job.attained_s >= 600 and job.remaining_s > first.remaining_s:
                decision.stop(job, to=first)
                missing -= job.devices
    for job in waiting:
        decision.start(job)
        decision.explain(job, f"{job.remaining_s:.0f} s are left of it, and shorter jobs go first")
        if job.waited_s < patience_s:
            decision.wake_at(job.submit + patience_s)


serve(schedule, knows="durations", settings=["patience_s"])

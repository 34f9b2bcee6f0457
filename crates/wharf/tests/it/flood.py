"""A million reports of ten thousand metrics: most of them within the SDK, the rest as datagrams that no SDK would send."""

import json
import os
import socket

import wharf

STEPS, NAMES = 1_000_000, 10_000

for step in wharf.steps(STEPS):
    wharf.report(**{f"metric{step % NAMES}": step, "loss": 1 / (step + 1)})

rogue = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
name = {"job": int(os.environ["WHARF_JOB_ID"]), "generation": int(os.environ["WHARF_GENERATION"]), "token": os.environ["WHARF_PROGRESS_TOKEN"]}
for index in range(2 * NAMES):
    points = [[STEPS + index, 1e9 + index, {f"rogue{index % NAMES}": index, "bad\x1bname": 1}]]
    text = json.dumps({**name, "metrics": {f"rogue{index % NAMES}": index}, "points": points, "strides": {"loss": 3}})
    rogue.sendto(text.encode(), os.environ["WHARF_PROGRESS_SOCKET"])

"""A trainer whose metrics depend on the step alone, and whose state is a file. Takes the folder, the number of steps and seconds for each, and a
step at which its first run waits to be killed."""

import math
import os
import sys
import time
from pathlib import Path

import wharf

folder, total, pause, gate = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
state = wharf.checkpoint_dir() / "step"
start = int(state.read_text()) if state.exists() else 0
(folder / f"{os.environ['WHARF_JOB_ID']}.pid").write_text(str(os.getpid()))
for step in wharf.steps(total, start=start, checkpoint_every=20):
    time.sleep(pause)
    if step == gate and not (folder / "lost").exists():
        (folder / "lost").touch()
        while True:
            time.sleep(1)
    wharf.report(loss=1 / (step + 1))
    if step % 10 == 9:
        wharf.report(accuracy=math.nan if step == 99 else step / total)
    if wharf.should_checkpoint():
        with wharf.atomic_write(state) as file:
            file.write(str(step + 1).encode())
        wharf.checkpointed()

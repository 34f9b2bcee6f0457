#!/usr/bin/env python3
"""Data-parallel training over several nodes with torch.distributed (gloo), checkpoint and resume."""

import sys
import time

import gang
from gang import RANK, WORLD_SIZE, wharf

try:
    import torch
    import torch.distributed as dist
except ImportError:
    gang.missing("PyTorch", "try `pip install torch`, or Debian's python3-torch")


def agree(mine):
    """Stops all if one has to."""
    wish = torch.tensor([1.0 if mine else 0.0])
    dist.all_reduce(wish, op=dist.ReduceOp.MAX)
    return bool(wish.item())


def load(path, model, optimizer):
    """All ranks start from rank 0's state: its checkpoint, or its first weights."""
    start = [0]
    state = None
    if RANK == 0 and path.exists():
        state = torch.load(path)
        start = [state["step"]]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        print(f"resumed at iteration {start[0]} of {WORLD_SIZE} processes from {path}", flush=True)
    shared = [start[0], model.state_dict(), optimizer.state_dict()] if RANK == 0 else [None] * 3
    dist.broadcast_object_list(shared, src=0)
    if RANK != 0:
        model.load_state_dict(shared[1])
        optimizer.load_state_dict(shared[2])
    return shared[0]


def save(path, step, model, optimizer):
    if RANK == 0:
        with wharf.atomic_write(path) as file:
            torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        wharf.checkpointed()
    # Wait until all ranks have saved.
    dist.barrier()


def main():
    args = gang.arguments(__doc__)
    dist.init_process_group("gloo", rank=RANK, world_size=WORLD_SIZE, init_method="env://")
    torch.manual_seed(args.seed)
    model = torch.nn.Sequential(torch.nn.Linear(gang.FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    path = gang.checkpoint_file("torch.pt")
    start = load(path, model, optimizer)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    steps = wharf.steps(args.iterations, start=start, checkpoint_every=args.checkpoint_every, agree=agree)
    for step in steps:
        began = time.monotonic()
        inputs, outputs = gang.batch(args.seed, step)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(parallel(torch.tensor(inputs)), torch.tensor(outputs))
        loss.backward()
        optimizer.step()
        time.sleep(max(0.0, args.iteration_ms / 1000 - (time.monotonic() - began)))
        wharf.report(loss=loss)
        gang.tell(step, args.iterations, float(loss))
        if wharf.should_checkpoint():
            save(path, step + 1, model, optimizer)
    print(f"done: rank {RANK} of {WORLD_SIZE}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""PyTorch with DistributedDataParallel: `launcher: torchrun`, or by hand `torchrun --nproc_per_node 2 pytorch_ddp.py`."""

import os
import sys

import common
from common import wharf

try:
    import torch
    import torch.distributed as dist
except ImportError:
    sys.exit("pytorch_ddp.py needs PyTorch: try `pip install torch`, or Debian's python3-torch")

WIDTH, BATCH = 8, 64


def batch(seed, step, rank, world):
    """This process's part of the samples of one iteration. The whole does not depend on the number of processes."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    inputs = torch.randn(BATCH, WIDTH, generator=generator)
    own = inputs[rank * BATCH // world : (rank + 1) * BATCH // world]
    return own, torch.sin(own.sum(dim=1, keepdim=True))


def agree(mine):
    """Lets all processes stop after the same iteration: where one has to, all do."""
    wish = torch.tensor([float(mine)])
    dist.all_reduce(wish, op=dist.ReduceOp.MAX)
    return bool(wish.item())


def main():
    args = common.arguments(__doc__, 500)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    # All processes read the same file: the checkpoint directory is reachable from every node of the gang.
    path = wharf.checkpoint_dir("checkpoints/pytorch-ddp") / "model.pt"
    start = 0
    if path.exists():
        state = torch.load(path)
        start = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        if rank == 0:
            print(f"resumed at iteration {start} from {path}", flush=True)
    parallel = torch.nn.parallel.DistributedDataParallel(model)

    for step in wharf.steps(args.iterations, start=start, checkpoint_every=args.checkpoint_every, agree=agree):
        with common.paced(args.iteration_ms):
            inputs, wanted = batch(args.seed, step, rank, world)
            loss = torch.nn.functional.mse_loss(parallel(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        wharf.report(loss=mean / world)
        if rank == 0:
            common.tell(step, args.iterations, (mean / world).item())
        if wharf.should_checkpoint():
            if rank == 0:
                with wharf.atomic_write(path) as file:
                    torch.save({"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
                wharf.checkpointed()
            # No process leaves before the checkpoint is safe.
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()

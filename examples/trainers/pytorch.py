#!/usr/bin/env python3
"""A PyTorch trainer in one process: checkpoint, resume, metrics. A resumed run ends as an uninterrupted one."""

import sys

import common
from common import wharf

try:
    import torch
except ImportError:
    sys.exit("pytorch.py needs PyTorch: try `pip install torch`, or Debian's python3-torch")

WIDTH, BATCH = 8, 64


def batch(seed, step):
    """The samples of one iteration follow from its number, so there is no data loader's state to save."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    inputs = torch.randn(BATCH, WIDTH, generator=generator)
    return inputs, torch.sin(inputs.sum(dim=1, keepdim=True))


def main():
    args = common.arguments(__doc__, 500)
    torch.manual_seed(args.seed)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    path = wharf.checkpoint_dir("checkpoints/pytorch") / "model.pt"
    start = 0
    if path.exists():
        state = torch.load(path)
        start = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        print(f"resumed at iteration {start} from {path}", flush=True)

    for step in wharf.steps(args.iterations, start=start, checkpoint_every=args.checkpoint_every):
        with common.paced(args.iteration_ms):
            inputs, wanted = batch(args.seed, step)
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        wharf.report(loss=loss, lr=optimizer.param_groups[0]["lr"])
        common.tell(step, args.iterations, loss.item())
        if wharf.should_checkpoint():
            with wharf.atomic_write(path) as file:
                torch.save({"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            wharf.checkpointed()


if __name__ == "__main__":
    main()

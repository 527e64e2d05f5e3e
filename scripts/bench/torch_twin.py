#!/usr/bin/env python3
"""A recogniser trained in PyTorch on what `ocr train` would see: same first weights, batches, learning rates.

usage: train_batches RUN/config.yml | torch_twin.py OUT [--threads N] [--updates N]
Reads standard input; the net must be CRNN with MobileNetV3 small, the optimiser Adam. Writes OUT (safetensors), which
`ocr eval` and `ocr export` take as Global.pretrained_model, and OUT.resume each 1,000 updates, from which it goes on where it was stopped.
--updates N: stop early, and say the losses."""
import argparse
import json
import pathlib
import struct
import sys
import time

import torch

import torch_nets

ap = argparse.ArgumentParser()
ap.add_argument("out")
ap.add_argument("--threads", type=int, default=1)
ap.add_argument("--updates", type=int)
ap.add_argument("--weight-decay", type=float, default=1e-5, help="L2, as Optimizer.regularizer")
ap.add_argument("--clip-norm", type=float, default=20, help="as Optimizer.clip_norm_global")
a = ap.parse_args()
torch.set_num_threads(a.threads)
torch.set_flush_denormal(True)


def write_weights(path):
    header, body = {}, b""
    for name, t in torch_nets.P.items():
        data = t.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


weights, start = torch_nets.read_record(sys.stdin.buffer)
parameters = torch_nets.load("crnn_mv3", weights, {})
optimizer = torch.optim.Adam(parameters, lr=1e-3, weight_decay=a.weight_decay, fused=True)
updates = a.updates or start["updates"].item()
resume, done = pathlib.Path(a.out + ".resume"), 0
if resume.exists():
    saved = torch.load(resume, weights_only=True)
    done = saved["updates"]
    optimizer.load_state_dict(saved["optimizer"])
    with torch.no_grad():
        for name, t in saved["weights"].items():
            torch_nets.P[name].copy_(t)
begin, recent = time.perf_counter(), []
for step in range(updates):
    record = torch_nets.read_record(sys.stdin.buffer)
    if record is None:
        sys.exit(f"the batches end after {step} updates")
    if step < done:
        continue
    batch = record[1]
    torch_nets.batch.update(image=batch["image"], labels=batch["label"], lengths=batch["length"])
    optimizer.param_groups[0]["lr"] = batch["learning_rate"].item()
    optimizer.zero_grad(set_to_none=True)
    loss = torch_nets.NETS["crnn_mv3"]()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, a.clip_norm)
    optimizer.step()
    recent.append(loss.item())
    if a.updates or (step + 1) % 100 == 0:
        print(f"update {step + 1} of {updates}: loss {sum(recent) / len(recent):.4f}, {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
        recent = []
    if (step + 1) % 1000 == 0:
        write_weights(a.out)
        state = {"updates": step + 1, "optimizer": optimizer.state_dict(), "weights": {k: t.detach() for k, t in torch_nets.P.items()}}
        torch.save(state, a.out + ".new")
        pathlib.Path(a.out + ".new").replace(resume)
write_weights(a.out)

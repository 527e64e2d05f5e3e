#!/usr/bin/env python3
"""Runs RapidOCR over images and writes PaddleOCR label lines: image<TAB>[{"transcription", "points", "score"}, ...].

usage: rapidocr_run.py --det DET.onnx --rec REC.onnx [--keys DICT] --cls CLS.onnx [--threads N] [--batch N] OUT IMAGE...
The last line on standard error gives images, seconds (without loading) and peak memory. Needs the public wheel
rapidocr 3.10.0 and onnxruntime."""
import argparse
import json
import resource
import sys
import time

from rapidocr import RapidOCR

ap = argparse.ArgumentParser()
for name in ("--det", "--rec", "--cls"):
    ap.add_argument(name, required=True)
ap.add_argument("--keys")
ap.add_argument("--threads", type=int, default=1)
ap.add_argument("--batch", type=int, default=6, help="recognition batch; 1 makes a line's width depend on that line alone")
ap.add_argument("out")
ap.add_argument("images", nargs="+")
a = ap.parse_args()

params = {
    "Global.log_level": "critical",
    "Det.model_path": a.det,
    "Rec.model_path": a.rec,
    "Cls.model_path": a.cls,
    "Rec.rec_batch_num": a.batch,
    "EngineConfig.onnxruntime.intra_op_num_threads": a.threads,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
}
if a.keys:
    params["Rec.rec_keys_path"] = a.keys
engine = RapidOCR(params=params)
engine(a.images[0])  # first touch of memory and caches
seconds = 0.0
with open(a.out, "w", encoding="utf-8") as out:
    for path in a.images:
        start = time.perf_counter()
        result = engine(path)
        seconds += time.perf_counter() - start
        lines = []
        if result.boxes is not None:
            for box, text, score in zip(result.boxes, result.txts, result.scores):
                lines.append({"transcription": text, "points": [[float(x), float(y)] for x, y in box], "score": float(score)})
        out.write(f"{path}\t{json.dumps(lines, ensure_ascii=False)}\n")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps({"images": len(a.images), "seconds": round(seconds, 3), "peak_mib": peak}), file=sys.stderr)

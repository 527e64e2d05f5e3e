#!/usr/bin/env python3
"""Compares `ocr infer --preset rapidocr` with RapidOCR 3.10 on the same images and models, line by line.

usage: parity_rapidocr.py --ocr build/release/apps/ocr/ocr --models models/ppocrv6_tiny --cls models/cls_v2/cls.onnx LIST
LIST: one image path a line. Needs `pip install rapidocr==3.10.0 onnxruntime`. Prints how many lines pair at
IoU >= 0.9 with identical text, and the others. Exit 1 when fewer than 99.5 % do. --save PREFIX writes both results as
PaddleOCR's lines, PREFIX.ocr.txt and PREFIX.rapidocr.txt, for scoring; --peer FILE takes RapidOCR's lines from such a
file of the same images and models instead of running it again."""
import argparse
import json
import subprocess
import sys

import numpy as np
from shapely.geometry import Polygon


def peer_lines(images, models, cls):
    from rapidocr import RapidOCR  # not needed with --peer

    reader = RapidOCR(params={
        "Global.log_level": "error", "Det.model_path": f"{models}/det.onnx", "Rec.model_path": f"{models}/rec.onnx",
        "Rec.rec_keys_path": f"{models}/dict.txt", "Cls.model_path": cls,
        "Rec.rec_batch_num": 1,  # its batches pad lines to the widest, which changes their text
        "EngineConfig.onnxruntime.intra_op_num_threads": 1})
    for image in images:
        r = reader(image)
        yield [] if r.boxes is None else list(zip(np.asarray(r.boxes, float).tolist(), r.txts))


def our_lines(args, images):
    out = subprocess.run([args.ocr, "infer", "--models", args.models, "--cls_model_dir", args.cls, "--preset", "rapidocr",
                          "--format", "jsonl", "--no-return_word_box", *images], check=True, capture_output=True, text=True)
    pages = [json.loads(line) for line in out.stdout.splitlines()]
    return {p["file"]: [(line["points"], line["text"]) for line in p["lines"]] for p in pages}


def save(path, pages):
    with open(path, "w", encoding="utf-8") as f:
        for image, lines in pages.items():
            items = [{"transcription": text, "points": points} for points, text in lines]
            f.write(f"{image}\t{json.dumps(items, ensure_ascii=False)}\n")


def read_saved(path):
    with open(path, encoding="utf-8") as f:
        for row in f:
            image, items = row.rstrip("\n").split("\t", 1)
            yield image, [(item["points"], item["transcription"]) for item in json.loads(items)]


def iou(a, b):
    p, q = Polygon(a), Polygon(b)
    if not p.is_valid or not q.is_valid:
        return float(np.allclose(a, b, atol=1))
    union = p.union(q).area
    return p.intersection(q).area / union if union else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ocr", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--cls", required=True)
    parser.add_argument("--save", metavar="PREFIX")
    parser.add_argument("--peer", metavar="FILE")
    parser.add_argument("list")
    args = parser.parse_args()
    images = [line.strip() for line in open(args.list, encoding="utf-8") if line.strip()]
    ours = our_lines(args, images)
    peers = dict(read_saved(args.peer) if args.peer else zip(images, peer_lines(images, args.models, args.cls)))
    if list(peers) != images:
        sys.exit(f"{args.peer}: holds other images than {args.list}")
    if args.save:
        save(f"{args.save}.ocr.txt", ours)
        save(f"{args.save}.rapidocr.txt", peers)
    total = same = 0
    for image, peer in peers.items():
        mine = list(ours[image])
        total += max(len(peer), len(mine))
        for box, text in peer:
            best = max(range(len(mine)), key=lambda i: iou(box, mine[i][0]), default=None)
            if best is None or iou(box, mine[best][0]) < 0.9:
                print(f"{image}: only RapidOCR: {text!r}")
                continue
            _, other = mine.pop(best)
            same += other == text
            if other != text:
                print(f"{image}: {text!r} became {other!r}")
        for _, text in mine:
            print(f"{image}: only ocr: {text!r}")
    print(f"{same} of {total} lines identical ({100 * same / max(total, 1):.2f} %)")
    sys.exit(same < 0.995 * total)


if __name__ == "__main__":
    main()

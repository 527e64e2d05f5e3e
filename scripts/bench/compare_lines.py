#!/usr/bin/env python3
"""Compares two PaddleOCR label files line by line: boxes pair at IoU >= 0.9 and should carry the same text.

usage: compare_lines.py PEER OURS [--show N]
Images are matched by file name. Prints one JSON line: pairs with equal text, pairs with other text, boxes without a partner on
either side, and the share of all lines that agree; with --show the first disagreements."""
import argparse
import json
import os


def load(path):
    pages = {}
    for line in open(path, encoding="utf-8"):
        key, _, value = line.rstrip("\n").partition("\t")
        pages[os.path.basename(key)] = json.loads(value)
    return pages


def area(p):
    return sum(p[i][0] * p[(i + 1) % len(p)][1] - p[(i + 1) % len(p)][0] * p[i][1] for i in range(len(p))) / 2


def clip(subject, window):
    """Sutherland-Hodgman: the part of a polygon inside a convex one; both clockwise on screen."""
    out = subject
    for i in range(len(window)):
        (ax, ay), (bx, by) = window[i], window[(i + 1) % len(window)]
        side = lambda q: (bx - ax) * (q[1] - ay) - (by - ay) * (q[0] - ax)
        src, out = out, []
        for j, p in enumerate(src):
            q = src[(j + 1) % len(src)]
            dp, dq = side(p), side(q)
            if dp >= 0:
                out.append(p)
            if (dp >= 0) != (dq >= 0):
                t = dp / (dp - dq)
                out.append((p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])))
        if not out:
            return []
    return out


def iou(a, b):
    a, b = [list(map(tuple, p if area(p) > 0 else p[::-1])) for p in (a, b)]
    if max(x for x, _ in a) <= min(x for x, _ in b) or max(x for x, _ in b) <= min(x for x, _ in a):
        return 0.0
    c = clip(a, b)
    inter = area(c) if len(c) > 2 else 0.0
    union = area(a) + area(b) - inter
    return inter / union if union > 0 else 0.0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("peer")
    ap.add_argument("ours")
    ap.add_argument("--show", type=int, default=0)
    a = ap.parse_args()
    peer, ours = load(a.peer), load(a.ours)
    same = other = 0
    alone_peer = alone_ours = 0
    shown = []
    for name, lines in peer.items():
        left = list(ours.get(name, []))
        for p in lines:
            best = max(left, key=lambda o: iou(p["points"], o["points"]), default=None)
            if best is None or iou(p["points"], best["points"]) < 0.9:
                alone_peer += 1
                shown.append((name, "peer only", p["transcription"], p["points"]))
                continue
            left.remove(best)
            if best["transcription"] == p["transcription"]:
                same += 1
            else:
                other += 1
                shown.append((name, "text", p["transcription"], best["transcription"]))
        alone_ours += len(left)
        shown += [(name, "ours only", o["transcription"], o["points"]) for o in left]
    total = same + other + alone_peer + alone_ours
    print(json.dumps({"images": len(peer), "lines": total, "same": same, "other_text": other, "peer_only": alone_peer,
                      "ours_only": alone_ours, "agree": round(same / max(total, 1), 5)}))
    for s in shown[: a.show]:
        print("  ", *s, sep=" | ")


main()

#!/usr/bin/env python3
"""Real trainings from scratch: prepares labelled data, trains, exports, measures. Each goes on where it stopped.

usage: real_trainings.py OCR DATA OUT rec|cls|det|zh [--models DIR] [-o KEY=VALUE ...]
OCR: the program. DATA: a folder with sroie/ (train.txt, dev.txt), funsd/ (det_line.txt, det_word.txt) and ic15_rec/ (rec.txt), in
PaddleOCR's label formats. OUT: a folder for crops, checkpoints and results; nothing is written elsewhere.

rec  lines and words of all three sets. SROIE's labels are upper case whatever the receipt prints: the line's case is taken from
     what the recogniser in --models (a folder, e.g. models/ppocrv6_small) reads where it reads the label's letters; other lines of
     SROIE are left out of the training. All dev lines stay, and SROIE's are measured without case.
cls  lines of SROIE and FUNSD, upright and upside down.
det  pages of SROIE.
zh   Chinese lines: DATA/fin_zh (det.txt and its PDF files, rendered with pdftoppm), clean and made to look scanned.
Pages are held back by crc32(name) % 10 == 0; SROIE has its own dev part."""
import argparse
import pathlib
import random
import re
import struct
import subprocess
import sys
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("ocr", type=pathlib.Path)
parser.add_argument("data", type=pathlib.Path)
parser.add_argument("out", type=pathlib.Path)
parser.add_argument("task", choices=["rec", "cls", "det", "zh"])
parser.add_argument("--models", type=pathlib.Path)
parser.add_argument("-o", dest="options", nargs="*", default=[], help="settings of the configuration")
args = parser.parse_args()
for name in ("ocr", "data", "out"):
    setattr(args, name, getattr(args, name).resolve())


def ocr(*words, capture=False):
    """Runs the program; 3 means that some samples could not be used, which it has said."""
    result = subprocess.run([args.ocr, *map(str, words)], text=True, stdout=subprocess.PIPE if capture else None)
    if result.returncode not in (0, 3):
        sys.exit(f"ocr {words[0]} ended with exit code {result.returncode}")
    return result.stdout


def read_labels(path):
    """[(path, text)]; paths that start with the label file's folder's name below OUT or DATA."""
    return [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()]


def write_labels(path, rows):
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")


def held_back(path):
    return zlib.crc32(re.sub(r"_crop_\d+$", "", pathlib.Path(path).stem).encode()) % 10 == 0


def size_of(path):
    """Width and height of a PNG or a JPEG."""
    data = path.read_bytes()
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return struct.unpack(">II", data[16:24])
    at = 2
    while at + 9 < len(data):
        marker, length = data[at + 1], int.from_bytes(data[at + 2:at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5:at + 9])
            return width, height
        at += 2 + length
    sys.exit(f"{path}: neither PNG nor JPEG")


def crops(name, labels):
    """Lines cut from pages into OUT/name; their labels with paths relative to OUT."""
    folder = args.out / name
    if not (folder / "rec.txt").exists():
        ocr("data", "crop", labels, "--images", labels.parent, "--save", folder)
    return [(f"{name}/{path}", text) for path, text in read_labels(folder / "rec.txt")]


def letters(text):
    return re.sub(r"\s", "", text)


def true_case(lines):
    """Upper-case labels with the case that a recogniser reads; lines of which it reads other letters are left out."""
    if args.models is None:
        sys.exit("rec needs --models, a folder with a recogniser, for the case of SROIE's labels")
    read = args.out / "sroie_read.tsv"
    if not read.exists():
        text = ocr("infer", "--task", "rec", "--rec_model_dir", args.models, "-f", "tsv", args.out / "sroie_train/crops", capture=True)
        read.write_text(text, encoding="utf-8")
    seen = {}
    for row in read.read_text(encoding="utf-8").splitlines()[1:]:
        fields = row.split("\t")
        if len(fields) == 6:
            seen.setdefault(pathlib.Path(fields[0]).name, letters(fields[5]))
    kept = []
    for path, text in lines:
        reading = seen.get(pathlib.Path(path).name, "")
        if reading.upper() == letters(text):
            case = iter(reading)
            kept.append((path, "".join(c if c.isspace() else next(case) for c in text)))
    print(f"SROIE: {len(kept)} of {len(lines)} lines have a case", file=sys.stderr)
    return kept


def prepare_rec():
    printable = {chr(c) for c in range(33, 127)}
    write_labels(args.out / "dict.txt", [[c] for c in sorted(printable)])
    train = true_case(crops("sroie_train", args.data / "sroie/train.txt"))
    dev = {"sroie": crops("sroie_dev", args.data / "sroie/dev.txt"), "funsd": [], "ic15": []}
    for name in ("det_word", "det_line"):
        for path, text in crops(f"funsd_{name}", args.data / f"funsd/{name}.txt"):
            (dev["funsd"] if held_back(path) else train).append((path, text))
    for path, text in read_labels(args.data / "ic15_rec/rec.txt"):
        width, height = size_of(args.data / "ic15_rec" / path)
        if height <= 1.5 * width:  # taller ones are read sideways
            (dev["ic15"] if held_back(path) else train).append((args.data / "ic15_rec" / path, text))
    usable = [(p, t) for p, t in train if 0 < len(t) <= 60 and set(t) <= printable | {" "} and t.strip()]
    write_labels(args.out / "rec_train.txt", [(p, t, *size_of(args.out / p)) for p, t in usable])
    for name, lines in dev.items():
        write_labels(args.out / f"rec_dev_{name}.txt", lines)
    random.seed(1)
    write_labels(args.out / "rec_dev.txt", [row for lines in dev.values() for row in random.sample(lines, min(300, len(lines)))])


def prepare_cls():
    random.seed(3)
    lines = {"train": crops("sroie_train", args.data / "sroie/train.txt"), "dev": []}
    for name in ("det_word", "det_line"):
        for path, text in crops(f"funsd_{name}", args.data / f"funsd/{name}.txt"):
            lines["dev" if held_back(path) else "train"].append((path, text))
    lines["dev"] = random.sample([x for x in lines["dev"] if "det_line" in str(x[0])], 700) + random.sample(
        crops("sroie_dev", args.data / "sroie/dev.txt"), 1500)
    for part, rows in lines.items():
        write_labels(args.out / f"cls_{part}_lines.txt", [r for r in rows if len(letters(r[1])) > 2])
        ocr("data", "turn", args.out / f"cls_{part}_lines.txt", "--images", args.out, "--save", args.out / f"cls_{part}")


def render(folder):
    """The pages that fin_zh's labels name, at the 150 dpi of their boxes."""
    (folder / "pages").mkdir(parents=True, exist_ok=True)
    labels = folder / "det.txt"
    if labels.exists():
        return labels
    rows = read_labels(args.data / "fin_zh/det.txt")
    for path, _ in rows:
        document, page = pathlib.Path(path).stem.split("-")
        if not (folder / path).exists():
            subprocess.run(["pdftoppm", "-r", "150", "-png", "-singlefile", "-f", str(int(page)), "-l", str(int(page)),
                            args.data / f"fin_zh/{document}.pdf", (folder / path).with_suffix("")], check=True)
    write_labels(labels, rows)
    return labels


def prepare_zh():
    clean = render(args.out / "zh_pages")
    ocr("data", "degrade", clean, "--save", args.out / "zh_scanned")
    parts = {"train": [], "dev_clean": [], "dev_scanned": []}
    for name, labels in (("clean", clean), ("scanned", args.out / "zh_scanned/labels.txt")):
        for path, text in crops(f"zh_{name}_lines", labels):
            width, height = size_of(args.out / path)
            if height <= 1.5 * width:
                parts[f"dev_{name}" if held_back(path) else "train"].append((path, text, width, height))
    usable = [row for row in parts["train"] if 0 < len(row[1]) <= 60 and row[1].strip()]
    write_labels(args.out / "zh_dict.txt", [[c] for c in sorted({c for row in usable for c in row[1]} - {" "})])
    write_labels(args.out / "zh_train.txt", usable)
    write_labels(args.out / "zh_train_short.txt", [row for row in usable if len(row[1]) <= 12 and row[2] <= 8 * row[3]])
    for name in ("dev_clean", "dev_scanned"):
        write_labels(args.out / f"zh_{name}.txt", [row[:2] for row in parts[name]])
    random.seed(1)
    write_labels(args.out / "zh_dev.txt", [row[:2] for row in random.sample(parts["dev_scanned"], 300)])


def train(config, options, folder):
    ocr("train", "-c", ROOT / "configs" / config, "--resume", "--skip-bad", 100, "-o", f"Global.save_model_dir={folder}", *options,
        *args.options)


def export(folder):
    ocr("export", "-c", folder / "config.yml", "-o", f"Global.save_inference_dir={args.out}/{args.task}_inference")


def data_options(part, folder, *labels):
    return [f"{part}.dataset.data_dir={folder}", f"{part}.dataset.label_file_list=[{','.join(map(str, labels))}]"]


args.out.mkdir(parents=True, exist_ok=True)
out = args.out
run = out / f"run_{args.task}"
model = ("--model", out / f"{args.task}_inference/inference.onnx")
if args.task == "rec":
    if not (out / "rec_dev.txt").exists():
        prepare_rec()
    train("rec/rec_mv3_crnn_words.yml", [f"Global.character_dict_path={out}/dict.txt"] +
          data_options("Train", out, out / "rec_train.txt") + data_options("Eval", out, out / "rec_dev.txt"), run)
    export(run)
    for name in ("sroie", "funsd", "ic15"):
        ocr("eval", "--task", "rec", *model, "--labels", out / f"rec_dev_{name}.txt", "--images", out, "--json", out / f"rec_{name}.json",
            "--gallery", out / f"rec_{name}.html")
elif args.task == "cls":
    if not (out / "cls_dev/cls.txt").exists():
        prepare_cls()
    # Wider for their height than PaddleOCR's 48x192: most lines here would be squashed to half their width. The lines are 15 to 30
    # pixels high, so that more height would show nothing more, and what it saves goes into a wider net.
    shape = "ClsResizeImg.image_shape=[3,32,224]"
    train("cls/cls_mv3.yml", [
        "Global.epoch_num=7", "Global.eval_batch_step=[0,1000]", "Architecture.Backbone.scale=0.75",
        "Architecture.Backbone.small_stride=[2,2,2,1]", "Optimizer.lr.learning_rate=0.002", "Optimizer.lr.warmup_epoch=0.3",
        f"Train.dataset.transforms.3.{shape}", f"Eval.dataset.transforms.2.{shape}"] +
          data_options("Train", out / "cls_train", out / "cls_train/cls.txt") +
          data_options("Eval", out / "cls_dev", out / "cls_dev/cls.txt"), run)
    export(run)
    ocr("eval", "--task", "cls", *model, "--labels", out / "cls_dev/cls.txt", "--json", out / "cls.json")
elif args.task == "zh":
    if not (out / "zh_dev.txt").exists():
        prepare_zh()
    # Short lines first: CTC finds its alignment there sooner, and at a quarter of the cost. Then all, with a rate that falls twice.
    weights = []
    for folder, labels, epochs in ((out / "run_zh_short", "zh_train_short.txt", 3), (out / "run_zh_all", "zh_train.txt", 4),
                                   (run, "zh_train.txt", 4)):
        train("rec/rec_mv3_crnn_words.yml", weights + [f"Global.character_dict_path={out}/zh_dict.txt", f"Global.epoch_num={epochs}"] +
              data_options("Train", out, out / labels) + data_options("Eval", out, out / "zh_dev.txt"), folder)
        weights = [f"Global.pretrained_model={folder}/latest"]
    export(run)
    for name in ("dev_clean", "dev_scanned"):
        ocr("eval", "--task", "rec", *model, "--labels", out / f"zh_{name}.txt", "--images", out, "--json", out / f"zh_{name}.json",
            "--gallery", out / f"zh_{name}.html")
else:
    pages = args.data / "sroie"
    # One branch a layer instead of four, and augmentations of the size of what flat scans need: more updates in the time.
    augment = "Train.dataset.transforms.2.IaaAugment.augmenter_args"
    train("det/det_lcnet_db.yml", [
        "Global.epoch_num=18", "Global.eval_batch_step=[0,500]", "Architecture.Backbone.conv_kxk_num=1",
        "Train.loader.batch_size_per_card=4", "Optimizer.lr.warmup_epoch=1", f"{augment}.1.args.rotate=[-4,4]",
        f"{augment}.2.args.size=[0.7,2]"] + data_options("Train", pages, pages / "train.txt") +
          data_options("Eval", pages, pages / "dev.txt"), run)
    export(run)
    ocr("eval", "--task", "det", *model, "--labels", pages / "dev.txt", "--images", pages, "--json", out / "det.json",
        "--gallery", out / "det.html")

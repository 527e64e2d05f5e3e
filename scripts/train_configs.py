#!/usr/bin/env python3
"""Which of PaddleOCR's configurations train: two steps of each, on toy data, with paths replaced.

usage: train_configs.py OCR CONFIGS_DIR --det LABELS --rec LABELS --cls LABELS --dict FILE [--dry-run]
CONFIGS_DIR holds det/, rec/ and cls/ with .yml files. LABELS: a label file whose paths are relative to its own folder.
Prints a line for each, the refusal where there is one, and how many trained."""
import argparse
import pathlib
import subprocess
import tempfile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("ocr")
parser.add_argument("configs", type=pathlib.Path)
for kind in ("det", "rec", "cls"):
    parser.add_argument(f"--{kind}", type=pathlib.Path, required=True)
parser.add_argument("--dict", required=True)
parser.add_argument("--dry-run", action="store_true")
args = parser.parse_args()


def overrides(config, labels, folder):
    text = config.read_text(encoding="utf-8")
    yield from ("Global.epoch_num=1", f"Global.save_model_dir={folder}", "Global.pretrained_model=", "Global.checkpoints=",
                "Global.print_batch_step=1", "Train.loader.batch_size_per_card=2", "Train.loader.num_workers=0",
                "Train.loader.drop_last=false")
    for split in ("Train", "Eval"):
        yield from (f"{split}.dataset.data_dir={labels.parent}", f"{split}.dataset.label_file_list=[{labels}]",
                    f"{split}.dataset.ratio_list=[1.0]")
        if "LMDB" in text:
            yield f"{split}.dataset.name=SimpleDataSet"
    if "MultiScaleSampler" in text:
        yield "Train.sampler.first_bs=2"
    if labels == args.rec:
        yield f"Global.character_dict_path={args.dict}"


files = sorted(args.configs.rglob("*.yml"))
trained = 0
for config in files:
    name = config.relative_to(args.configs)
    labels = getattr(args, name.parts[0])
    with tempfile.TemporaryDirectory() as folder:
        # Toy lines that are too long for a small net's time steps say nothing of the configuration.
        command = [args.ocr, "train", "-c", str(config), "--skip-bad", "1000", *(["--dry-run"] if args.dry_run else []),
                   "-o", *overrides(config, labels, folder)]
        result = subprocess.run(command, capture_output=True, text=True)
    trained += result.returncode == 0
    print(name, "trains" if result.returncode == 0 else result.stderr.strip().splitlines()[-1], flush=True)
print(f"{trained} of {len(files)} train")

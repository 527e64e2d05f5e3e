#!/usr/bin/env bash
# Draws datasets/sample/: an invented receipt with Latin and Chinese text, and its labels in PaddleOCR's format.
# The picture is in the repository; run this only to change it. The noise is seeded: equal fonts give equal files.
# usage: scripts/make_sample.sh
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
ensure_sets sample

# shellcheck disable=SC2034  # read by name
font_sans=/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
# shellcheck disable=SC2034
font_bold=/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf
# shellcheck disable=SC2034
font_cjk=/usr/share/fonts/truetype/wqy/wqy-microhei.ttc
out=datasets/sample
width=760 height=1000
# font | size | l(eft), c(entre) or r(ight) | x of that edge | y of the top | text
lines="
bold|34|c|380|50|BLUE HERON BOOKS
sans|22|c|380|104|12 Harbour Street, Port Ellen
cjk|30|c|380|150|藍鷺書店 欢迎光临
sans|22|l|70|232|Receipt No. 2024-0317
sans|22|r|690|232|17/03/2024 14:26
sans|24|l|70|312|1 x Field Guide to Birds
sans|24|r|690|312|18.50
cjk|26|l|70|364|2 x 水彩画入门
sans|24|r|690|364|25.80
sans|24|l|70|416|3 x Postcards (sea view)
sans|24|r|690|416|4.50
cjk|26|l|70|468|1 x 世界地图 大号
sans|24|r|690|468|32.00
sans|22|l|70|556|Subtotal
sans|22|r|690|556|80.80
sans|22|l|70|604|VAT 7.5 %
sans|22|r|690|604|6.06
bold|30|l|70|656|TOTAL EUR
bold|30|r|690|656|86.86
cjk|26|l|70|742|付款方式：银行卡
sans|22|r|690|744|Card **** 4821
sans|20|c|380|836|Returns within 30 days with this receipt.
cjk|28|c|380|884|谢谢惠顾，请再来！
"

mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
convert -size ${width}x$height xc:'#f4f1ea' "$work/page.png"
labels=
while IFS='|' read -r font size align x y text; do
  [ -n "$font" ] || continue
  font=font_$font
  # The ink alone, trimmed: what is pasted is exactly what the label's box says.
  convert -background none -fill '#23262b' -font "${!font}" -pointsize "$size" "label:${text//%/%%}" -trim +repage "$work/line.png"
  read -r w h < <(identify -format '%w %h\n' "$work/line.png")
  case "$align" in c) x=$((x - w / 2)) ;; r) x=$((x - w)) ;; esac
  convert "$work/page.png" "$work/line.png" -geometry "+$x+$y" -composite "$work/page.png"
  x0=$((x - 3)) y0=$((y - 3)) x1=$((x + w + 2)) y1=$((y + h + 2))
  labels+="${labels:+, }{\"transcription\": \"$text\", \"points\": [[$x0, $y0], [$x1, $y0], [$x1, $y1], [$x0, $y1]]}"
done <<<"$lines"
convert "$work/page.png" -stroke '#55585c' -draw 'line 70,286 690,286' -draw 'line 70,530 690,530' -draw 'line 70,714 690,714' \
  -blur 0x0.6 -seed 7 -attenuate 0.25 +noise Gaussian -strip -sampling-factor 4:2:0 -quality 80 "$out/receipt.jpg"
printf 'receipt.jpg\t[%s]\n' "$labels" > "$out/det.txt"
ls -l "$out"

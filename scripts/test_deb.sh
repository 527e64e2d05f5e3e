#!/usr/bin/env bash
# Builds the Debian package and proves it in a bare Debian 12 root: it installs with apt, brings no GDAL along, starts,
# and (where models/ is there) reads the sample page. Exit 77: skipped, with the reason on the last line.
# usage: scripts/test_deb.sh
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
usage_if_asked "$@"
skip77() { echo "$*"; exit 77; }

[ "$(id -u)" -eq 0 ] || skip77 "making a clean root needs root"
ensure_sets build deb more
build release -- ocr ocr_shared
rm -f build/release/*.deb
(cd build/release && cpack -G DEB >cpack.log 2>&1) || { cat build/release/cpack.log; die "cpack failed"; }
deb=$(echo build/release/*.deb)
dpkg-deb --field "$deb" Package Version Architecture Depends Recommends

root=$(mktemp -d /var/tmp/ocr-deb.XXXXXX)
trap 'rm -rf --one-file-system "$root"' EXIT
chmod 755 "$root"
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
  sed -nE 's/^(URIs:|deb( \[[^]]*\])?) +([^ ]+).*/\3/p' | head -1 || true)
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" ${mirror:+"$mirror"} >build/release/debootstrap.log 2>&1 ||
  skip77 "debootstrap found no mirror: $(tail -1 build/release/debootstrap.log)"
# This machine's way to its mirror: sources, proxies, certificates, names.
rm -rf "$root"/etc/apt/sources.list*
cp -rL /etc/apt/sources.list /etc/apt/sources.list.d "$root/etc/apt/" 2>/dev/null || true
find /etc/apt/apt.conf.d -type f ! -name 'docker-*' -exec cp {} "$root/etc/apt/apt.conf.d/" \;
rm -rf "$root/etc/ssl/certs"
cp -rL /etc/ssl/certs "$root/etc/ssl/" 2>/dev/null || true
cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true

cp "$deb" "$root/tmp/ocr.deb"
cp datasets/sample/receipt.jpg "$root/tmp/"
[ ! -d models ] || cp -r models "$root/usr/share/ocr-test-models"
# The mounts live in a name space of their own and end with it.
unshare --mount chroot "$root" /usr/bin/env -i HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive \
  PATH=/usr/sbin:/usr/bin:/sbin:/bin /bin/bash -euc '
    mount -t proc proc /proc
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends /tmp/ocr.deb >/tmp/apt.log 2>&1 || { tail -20 /tmp/apt.log; exit 1; }
    if dpkg-query -W "*gdal*" 2>/dev/null | grep .; then echo "GDAL came along"; exit 1; fi
    ocr --version
    if [ -d /usr/share/ocr-test-models ]; then
      OCR_MODELS=/usr/share/ocr-test-models ocr infer /tmp/receipt.jpg >/tmp/text
      cat /tmp/text
      grep -q "BLUE HERON BOOKS" /tmp/text
    fi
    apt-get purge -y -qq ocr-toolkit >/dev/null 2>&1
    [ ! -e /usr/bin/ocr ]'  # not command -v: bash remembers where a command was
echo "$(basename "$deb") installs, runs and goes away in a bare Debian 12"

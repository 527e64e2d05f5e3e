#!/usr/bin/env bash
# The Debian packages the project needs, in one place. Sourced by the other scripts; as a program it installs them.
# usage: scripts/packages.sh [--list] SET...      sets: build mpi test more models deb run sample fuzz format
# shellcheck disable=SC2034  # the lists are read by name

# Compiler, build tools and libraries: enough for `cmake --preset release && cmake --build --preset release`.
PACKAGES_build=(
  g++ cmake ninja-build pkg-config
  libopencv-core-dev libopencv-imgproc-dev libpolyclipping-dev   # matrices, warps, contours; polygon offsets
  libonnx-dev libprotobuf-dev protobuf-compiler                  # ONNX message classes
  libyaml-cpp-dev libcli11-dev libspdlog-dev nlohmann-json3-dev  # settings, command line, log, JSON
  liblmdb-dev                         # training data in LMDB
  libjpeg62-turbo-dev libpng-dev libtiff-dev libwebp-dev libgif-dev libpoppler-cpp-dev  # image formats, PDF
  libfreetype-dev                                                # text in annotated pictures
  libgtest-dev libgmock-dev                                      # tests, built by default
)
# The plug-in for training over several processes, and what starts them.
PACKAGES_mpi=(libopenmpi-dev openmpi-bin)
# What the tests run besides the build.
PACKAGES_test=("${PACKAGES_build[@]}" "${PACKAGES_mpi[@]}" binutils file fonts-wqy-microhei)
# scripts/test_more.sh: old CPUs by emulation, the package in a clean root.
PACKAGES_more=(qemu-user-static dpkg-dev debootstrap)
# scripts/fetch_models.sh.
PACKAGES_models=(python3-pip)
# Building the .deb.
PACKAGES_deb=(dpkg-dev file)
# What annotated pictures, and PDFs without embedded fonts, need for Chinese, Japanese and Korean.
PACKAGES_run=(fonts-wqy-microhei poppler-data)
# scripts/make_sample.sh.
PACKAGES_sample=(imagemagick fonts-dejavu-core fonts-wqy-microhei)
# scripts/fuzz.sh.
PACKAGES_fuzz=(clang libclang-rt-dev)
# scripts/format.sh and its checks.
PACKAGES_format=(clang-format shellcheck)

# missing_packages NAME...: prints those that dpkg does not have installed.
missing_packages() {
  local name
  for name in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed || echo "$name"
  done
}

# ensure_packages NAME...: installs what is missing; calls apt-get only then. Returns 1 when it cannot.
ensure_packages() {
  local missing as_root=()
  if ! command -v dpkg-query >/dev/null; then
    echo "note: no dpkg here: please see to the equivalents of these Debian packages yourself: $*" >&2
    return 0
  fi
  mapfile -t missing < <(missing_packages "$@")
  [ "${#missing[@]}" -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "error: missing packages and neither root nor sudo; ask an administrator for:" >&2
      echo "  apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "installing ${missing[*]}" >&2
  if ! "${as_root[@]}" apt-get update -qq </dev/null >&2 ||
     ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
         -o Dpkg::Use-Pty=0 "${missing[@]}" </dev/null >/dev/null; then
    echo "error: apt-get could not install: ${missing[*]}" >&2
    return 1
  fi
}

# ensure_sets SET...: the same for whole lists.
ensure_sets() {
  local set all=()
  for set in "$@"; do
    declare -n list="PACKAGES_$set"
    all+=("${list[@]}")
  done
  ensure_packages "${all[@]}"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  case "${1:---help}" in
    -h|--help) sed -n '2,3s/^# //p' "$0" ;;
    --list) shift; for set in "$@"; do declare -n names="PACKAGES_$set"; printf '%s\n' "${names[@]}"; done | sort -u ;;
    *) ensure_sets "$@" ;;
  esac
fi

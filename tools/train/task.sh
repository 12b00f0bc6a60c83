#!/usr/bin/env bash
# Builds, makes a real data set from the apt package index and trains on it.
#
# usage: ./run train [options of `dslide train`...]
#
# Makes the data set in data/ when it is missing and trains on it inside one process, by what
# `dslide train` chooses from the data. The data set: the words of a Debian package's description ->
# the packages that it depends on and recommends, from this machine's apt package index. Without an
# index, a synthetic set of the same kind is generated, and the output says so.
#
# Every further option goes to `build/bin/dslide train` (see its --help) and overrides what is set
# here, for example:
#   ./run train --shards 4            another number of embedded shards
#   ./run train --model docs/models/debian-packages.json    a network with hashed rows
#   ./run train -o json               the last line of stdout is one JSON object
# With --data FILE nothing is set here.
#
# The trained model is kept in models/debian-packages.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/common/base.sh
source tools/common/packages.sh
source tools/common/builds.sh

readonly TRAIN_DATA=data/debian-packages
readonly SYNTHETIC_DATA=data/synthetic

# Sets DATA to a folder with train.txt and test.txt, made when it is missing.
make_training_data() {
  DATA="$TRAIN_DATA"
  if [[ -s "$DATA/train.txt" && -s "$DATA/test.txt" ]]; then return; fi
  want_apt_index
  if have_apt_index; then
    say "Making the Debian package data set in $DATA"
    if build/bin/dslide data debian-packages --output "$DATA" >&2; then return; fi
    note 'the data set could not be made from the apt index (see above)'
  fi
  DATA="$SYNTHETIC_DATA"
  if [[ -s "$DATA/train.txt" && -s "$DATA/test.txt" ]]; then
    say "Using the SYNTHETIC data set in $DATA, as there is no usable apt index on this machine"
    return
  fi
  say "No usable apt package index on this machine: generating a SYNTHETIC data set in $DATA"
  mkdir -p "$DATA"
  local shape=(--features 20000 --labels 40000)
  build/bin/dslide data gen --output "$DATA/test.txt" "${shape[@]}" --points 5000 \
    --first-point 45000 >&2
  build/bin/dslide data gen --output "$DATA/train.txt" "${shape[@]}" --points 45000 >&2
}

build_or_die release
# A flag may be given once, so what the user gives is left out here.
defaults=()
if ! given --data "$@"; then
  make_training_data
  defaults+=(--data "$DATA/train.txt")
  if ! given --eval "$@"; then defaults+=(--eval "$DATA/test.txt"); fi
  if ! given --model-dir "$@"; then defaults+=(--model-dir "models/$(basename "$DATA")"); fi
  # A repeated run replaces its model, unless it is told to go on with it.
  if ! given --overwrite "$@" && ! given --resume "$@"; then defaults+=(--overwrite); fi
  say "Training on $DATA"
fi
exec build/bin/dslide train "${defaults[@]}" "$@"

#!/usr/bin/env bash
# Writes the model directory that is kept of the formats as they are now, and what `dslide predict`
# says with it; docs/understand/formats.md says when.
#
# usage: sudo tests/golden/generate_model_dir.sh PATH_OF_DSLIDE DIR
#
# Makes DIR, and DIR.jsonl beside it. The same rows every time: fixed points and seed, one thread.
# Needs the right to make a namespace of its own, since RocksDB writes the name of the host into its
# files.

set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dslide="$(realpath "$1")"
directory="$(realpath -m "$2")"
# Sums must have the same bits on every processor.
export DSLIDE_MAX_ISA=sse4

mkdir -p "$(dirname "$directory")"
cd "$(dirname "$directory")"
name="$(basename "$directory")"
# RocksDB also writes paths.
unshare --uts sh -c 'hostname golden && exec "$@"' sh "$dslide" train -q --data "$here/points.txt" \
  --model-dir "$name" --name golden --shards 2 --threads 1 --seed 5 --dim 4 --batch 4 --in-flight 1 \
  --epochs 30 --max-active 8 --tail-rows 2 --tables 4 --codes 3 --rebuild-every 3 --precision bf16 \
  --learning-rate 0.1 --validation-fraction 0 --patience 0
find "$name" \( -name LOG -o -name 'LOG.old.*' \) -delete
copy="$(mktemp -d)"
cp -r "$name" "$copy/model"
"$dslide" predict --model-dir "$copy/model" --data "$here/points.txt" -k 3 --threads 1 -o json \
  > "$name.jsonl"
rm -r "$copy"

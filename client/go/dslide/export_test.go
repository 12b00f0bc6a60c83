package dslide

import v1 "dslide.dev/gen/dslide/v1"

// Defaults are those of how a model is trained, and of a table's rates.
func Defaults() (*v1.TrainingSpec, *v1.OptimizerSpec) { return defaultTraining(), defaultRates() }

// ShardsOfRows shows who is dealt each row.
func ShardsOfRows(rows []uint32, owners []uint16, shards int) []int {
	of := make([]int, len(rows))
	for shard, part := range deal(rows, owners, shards) {
		for i := range part.ids {
			of[part.place(i)] = shard
		}
	}
	return of
}

// CombineLoss takes the shards' parts as the vectors have them: maxLogits, expSums [shards, batch],
// offsets [shards, batch + 1], logits of all.
func CombineLoss(
	softmax bool, shards int, maxLogits, expSums, logits []float32, offsets []uint32, targets []float32,
) (float64, []float32) {
	batch, parts := len(targets), make([]headPart, shards)
	for shard := range parts {
		labels := &Sparse{}
		for _, offset := range offsets[shard*(batch+1) : (shard+1)*(batch+1)] {
			labels.Offsets = append(labels.Offsets, int(offset))
		}
		own := labels.Offsets[batch]
		parts[shard] = headPart{maxLogits[shard*batch : (shard+1)*batch], expSums[shard*batch : (shard+1)*batch],
			logits[:own], labels}
		logits = logits[own:]
	}
	return combineLoss(softmax, parts, targets)
}

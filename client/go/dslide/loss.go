package dslide

import (
	"math"

	v1 "dslide.dev/gen/dslide/v1"
)

// A headPart is what a shard answers to a HeadForward, as numbers.
type headPart struct {
	maxLogits, expSums []float32 // [B]
	labelLogits        []float32 // of its part of the labels, in their order
	labels             *Sparse
}

// combineLoss combines the shards' parts of the softmax, or of the sigmoid's sum, in float64.
//
//	targets: [B], that of each label of a sample
//
// Returns the sum of the samples' losses and log_partitions, [B]; these are empty for the sigmoid.
func combineLoss(softmax bool, parts []headPart, targets []float32) (float64, []float32) {
	var sum float64
	var partitions []float32
	for sample, target := range targets {
		partition := partitionOf(softmax, parts, sample)
		ofLabels, labels := 0.0, 0
		for _, part := range parts {
			first, end := part.labels.Offsets[sample], part.labels.Offsets[sample+1]
			for _, logit := range part.labelLogits[first:end] {
				ofLabels += float64(logit)
			}
			labels += end - first
		}
		weight := 1.0
		if softmax {
			weight = float64(target) * float64(labels)
			partitions = append(partitions, float32(partition))
		}
		sum += float64(weight*partition) - float64(float64(target)*ofLabels)
	}
	return sum, partitions
}

func partitionOf(softmax bool, parts []headPart, sample int) float64 {
	highest, sum := math.Inf(-1), 0.0
	for _, part := range parts {
		highest = max(highest, float64(part.maxLogits[sample]))
	}
	for _, part := range parts {
		own := float64(part.expSums[sample])
		if softmax && own != 0 { // a shard without rows for a sample answers (-inf, 0)
			own = float64(own * math.Exp(float64(part.maxLogits[sample])-highest))
		}
		sum += own
	}
	if softmax {
		return highest + math.Log(sum)
	}
	return sum
}

// LearningRate returns the rate of a table at a job's step, from 1: that of its schedule.
func LearningRate(optimizer *v1.OptimizerSpec, step int64) float64 {
	schedule, rate := optimizer.GetSchedule(), optimizer.GetLearningRate()
	if step < schedule.GetWarmupSteps() {
		return rate * float64(step) / float64(schedule.GetWarmupSteps())
	}
	progress := 1.0
	if schedule.GetDecaySteps() > 0 {
		progress = min(1, float64(step-schedule.GetWarmupSteps())/float64(schedule.GetDecaySteps()))
	}
	var height float64
	switch schedule.GetKind() {
	case "linear":
		height = 1 - progress
	case "cosine":
		height = 0.5 * (1 + math.Cos(math.Pi*progress))
	default:
		return rate
	}
	final := schedule.GetFinalFraction()
	return rate * (final + (1-final)*height)
}

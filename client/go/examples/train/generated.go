package main

import (
	"math/rand"

	"dslide.dev/data"
)

// generated makes points that can be learned: three of the 400 features tell of each of the 1,000
// labels, and one feature tells nothing.
func generated() *data.Set {
	const points, features, labels = 6000, 400, 1000
	set := &data.Set{NumFeatures: features, NumLabels: labels, Fingerprint: 1}
	draw := rand.New(rand.NewSource(1))
	signs := make([][]int, labels)
	for label := range signs {
		signs[label] = draw.Perm(features)[:3]
	}
	for range points {
		label, present := draw.Intn(labels), map[int]bool{draw.Intn(features): true}
		for _, feature := range signs[label] {
			present[feature] = true
		}
		point := data.Point{Labels: []uint32{uint32(label)}}
		for feature := range features {
			if present[feature] {
				point.Features, point.Values = append(point.Features, uint32(feature)), append(point.Values, 1)
			}
		}
		set.Points = append(set.Points, point)
	}
	return set
}

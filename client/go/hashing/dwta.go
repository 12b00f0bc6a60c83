package hashing

import (
	"math/bits"

	"dslide.dev/internal/random"
)

const (
	dwtaPart  = 2
	maxProbes = 64
	// A query is extended by the constants 1 and 0.
	extras = 2
)

// dwta is densified winner-take-all: which of a few permuted coordinates is the largest.
type dwta struct {
	codes, tables, dim, width, codeBits int
	// [codes * tables, width]: the coordinates that a bin compares.
	coordinates []int32
	// [codes * tables, maxProbes]: the bins whose winners an empty bin borrows, in that order; and
	// its code when all of these are empty.
	probes   []int32
	fallback []uint32
}

func newDWTA(seed uint64, codes, tables, dim, binSize int) *dwta {
	extended := dim + extras
	f := &dwta{codes: codes, tables: tables, dim: dim, width: min(binSize, extended),
		codeBits: bits.Len(uint(binSize)) - 1}
	bins, perPermutation := codes*tables, extended/f.width
	key := random.Derive(seed, dwtaPart)
	permutations, probes, fallback := random.Derive(key, 0), random.Derive(key, 1), random.Derive(key, 2)
	for p := 0; len(f.coordinates) < bins*f.width; p++ {
		order := permutation(random.Derive(permutations, uint64(p)), extended)
		f.coordinates = append(f.coordinates, order[:perPermutation*f.width]...)
	}
	f.coordinates = f.coordinates[:bins*f.width]
	for i := range bins * maxProbes {
		f.probes = append(f.probes, int32(random.Below(random.Bits(probes, uint64(i)), uint64(bins))))
	}
	for bin := range bins {
		f.fallback = append(f.fallback, uint32(random.Bits(fallback, uint64(bin)))&uint32(binSize-1))
	}
	return f
}

// permutation is Fisher and Yates' from the last place down.
func permutation(key uint64, n int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	for draw := range n - 1 {
		i := n - 1 - draw
		j := random.Below(random.Bits(key, uint64(draw)), uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
	return order
}

func (f *dwta) NumTables() int { return f.tables }

func (f *dwta) Hash(hidden []float32) []uint32 {
	batch, bins := len(hidden)/f.dim, f.codes*f.tables
	fingerprints := make([]uint32, batch*f.tables)
	extended, winners := make([]float32, f.dim+extras), make([]int32, bins)
	for sample := range batch {
		copy(extended, hidden[sample*f.dim:][:f.dim])
		extended[f.dim] = 1
		for bin := range bins {
			winners[bin] = f.winner(extended, f.coordinates[bin*f.width:][:f.width])
		}
		for bin := range bins {
			code := f.code(winners, bin)
			fingerprints[sample*f.tables+bin/f.codes] |= code << (bin % f.codes * f.codeBits)
		}
	}
	return fingerprints
}

// winner returns the place of the largest number that is not 0, the first one of equal ones; -1
// where all are 0: zeros are missing entries.
func (f *dwta) winner(extended []float32, coordinates []int32) int32 {
	best := int32(-1)
	var largest float32
	for place, coordinate := range coordinates {
		if x := extended[coordinate]; x != 0 && (best < 0 || x > largest) {
			best, largest = int32(place), x
		}
	}
	return best
}

func (f *dwta) code(winners []int32, bin int) uint32 {
	if winners[bin] >= 0 {
		return uint32(winners[bin])
	}
	for _, probe := range f.probes[bin*maxProbes:][:maxProbes] {
		if winners[probe] >= 0 {
			return uint32(winners[probe])
		}
	}
	return f.fallback[bin]
}

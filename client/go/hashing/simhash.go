package hashing

import "dslide.dev/internal/random"

const (
	simHashPart = 1
	minWidth    = 16
	rounds      = 3
)

// simHash has signs of structured random projections: rounds of random signs and a Walsh-Hadamard
// transform.
type simHash struct {
	codes, tables, dim, width int
	// For each block of width projections: the signs of each round, and of the constant 1 by which
	// a query is extended.
	signs [][rounds + 1][]float32
}

func newSimHash(seed uint64, codes, tables, dim int) *simHash {
	width := minWidth
	for width < dim {
		width *= 2
	}
	family := &simHash{codes: codes, tables: tables, dim: dim, width: width}
	key := random.Derive(seed, simHashPart)
	for block := range (codes*tables + width - 1) / width {
		var signs [rounds + 1][]float32
		for part := range signs {
			signs[part] = signsOf(random.Derive(random.Derive(key, uint64(block)), uint64(part)), width)
		}
		family.signs = append(family.signs, signs)
	}
	return family
}

func signsOf(key uint64, width int) []float32 {
	signs := make([]float32, width)
	for i := range signs {
		signs[i] = 1
		if random.Bits(key, uint64(i/64))>>(i%64)&1 == 1 {
			signs[i] = -1
		}
	}
	return signs
}

func (f *simHash) NumTables() int { return f.tables }

func (f *simHash) Hash(hidden []float32) []uint32 {
	batch := len(hidden) / f.dim
	fingerprints := make([]uint32, batch*f.tables)
	x, scale := make([]float32, f.width), 1/float32(f.width)
	for sample := range batch {
		prints := fingerprints[sample*f.tables:][:f.tables]
		for block, signs := range f.signs {
			clear(x)
			copy(x, hidden[sample*f.dim:][:f.dim])
			for round := range rounds {
				for i := range x {
					x[i] *= signs[round][i]
				}
				hadamard(x)
			}
			first := block * f.width
			for i := range min(f.width, f.codes*f.tables-first) {
				// The product is rounded before the sum: no fused operation may take its place.
				if float32(x[i]*scale)+signs[rounds][i] >= 0 {
					code := first + i
					prints[code/f.codes] |= 1 << (code % f.codes)
				}
			}
		}
	}
	return fingerprints
}

// hadamard is a Walsh-Hadamard transform in place; the length is a power of two.
func hadamard(x []float32) {
	for distance := 1; distance < len(x); distance *= 2 {
		for start := 0; start < len(x); start += 2 * distance {
			low, high := x[start:start+distance], x[start+distance:start+2*distance]
			for i, a := range low {
				b := high[i]
				low[i], high[i] = a+b, a-b
			}
		}
	}
}

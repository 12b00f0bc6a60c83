// Package hashing computes fingerprints of queries: the addresses in a head's hash tables at which
// similar rows are found.
//
// docs/understand/hashing.md states the algorithms. Only additions and comparisons in a stated
// order are used, so fingerprints are equal, bit for bit, to those of every other client and of the
// shards.
package hashing

import (
	"fmt"
	"math"
	"math/bits"

	v1 "dslide.dev/gen/dslide/v1"
)

// A Family hashes hidden vectors. It is immutable: goroutines may share it.
type Family interface {
	// NumTables returns how many fingerprints a vector has.
	NumTables() int
	// Hash returns the fingerprints, [batch, NumTables], of hidden vectors, [batch, dim].
	Hash(hidden []float32) []uint32
}

// New returns the family that a head's settings name, for vectors of dim floats and a table of so
// many rows. Settings of 0 are chosen as the shards choose them.
func New(spec *v1.HashSpec, dim int, rows int64) (Family, error) {
	resolved := Resolve(spec, rows)
	codes, tables := int(resolved.GetCodesPerTable()), int(resolved.GetNumTables())
	if dim < 1 || codes < 1 || tables < 1 {
		return nil, fmt.Errorf("dim %d, codes_per_table %d and num_tables %d must be at least 1", dim, codes, tables)
	}
	switch resolved.GetFamily() {
	case "simhash":
		return newSimHash(resolved.GetSeed(), codes, tables, dim), nil
	case "dwta":
		return newDWTA(resolved.GetSeed(), codes, tables, dim, int(resolved.GetBinSize())), nil
	}
	return nil, fmt.Errorf("hash family %q is not known: it must be simhash or dwta", resolved.GetFamily())
}

// Resolve returns the settings with those chosen that are absent or 0.
func Resolve(spec *v1.HashSpec, rows int64) *v1.HashSpec {
	family := or(spec.GetFamily(), "simhash")
	binSize := or(spec.GetBinSize(), 8)
	seed := uint64(24301)
	if spec != nil && spec.Seed != nil {
		seed = *spec.Seed
	}
	codes := spec.GetCodesPerTable()
	if codes == 0 {
		codeBits := int64(1)
		if family == "dwta" {
			codeBits = int64(bits.Len64(uint64(binSize))) - 1
		}
		wanted := int64(math.Round(math.Log2(float64(max(rows, 1))/320) / float64(codeBits)))
		codes = min(max(wanted, max(1, 4/codeBits)), max(1, 16/codeBits))
	}
	tables := or(spec.GetNumTables(), 12)
	return &v1.HashSpec{Family: &family, BinSize: &binSize, Seed: &seed, CodesPerTable: &codes, NumTables: &tables}
}

func or[T comparable](value, fallback T) T {
	var none T
	if value == none {
		return fallback
	}
	return value
}

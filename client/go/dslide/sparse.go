package dslide

import (
	"slices"

	"dslide.dev/arrays"
	v1 "dslide.dev/gen/dslide/v1"
)

// Sparse has the features, or the labels, of samples: ids that ascend strictly within a sample, and
// values of features. The zero value has no samples.
type Sparse struct {
	Offsets []int // sample i has IDs[Offsets[i]:Offsets[i+1]]; empty without samples
	IDs     []uint32
	Values  []float32
}

// Append adds a sample. values: one for each id; nil: all 1.
func (s *Sparse) Append(ids []uint32, values []float32) {
	if len(s.Offsets) == 0 {
		s.Offsets = append(s.Offsets, 0)
	}
	s.IDs = append(s.IDs, ids...)
	if values == nil {
		values = slices.Repeat([]float32{1}, len(ids))
	}
	s.Values = append(s.Values, values...)
	s.Offsets = append(s.Offsets, len(s.IDs))
}

// Len returns how many samples there are.
func (s *Sparse) Len() int { return max(0, len(s.Offsets)-1) }

func (s *Sparse) check(table *v1.TableSpec, rows int64, what string) error {
	n := s.Len()
	if n < 1 || n > 1<<16 {
		return invalid("%s of table %q: %d samples, must be 1 to 65,536", what, table.GetName(), n)
	}
	if s.Offsets[0] != 0 || s.Offsets[n] != len(s.IDs) || len(s.Values) != len(s.IDs) || !slices.IsSorted(s.Offsets) {
		return invalid("%s of table %q: Offsets must ascend from 0 to the %d ids, of which each has one of %d values",
			what, table.GetName(), len(s.IDs), len(s.Values))
	}
	if err := checkIDs(s.IDs, rows, what+" of table "+table.GetName()); err != nil {
		return err
	}
	for i := range n {
		if !ascends(s.IDs[s.Offsets[i]:s.Offsets[i+1]]) {
			return invalid("%s of table %q: the ids of sample %d do not ascend strictly: sort them, and merge equal ones",
				what, table.GetName(), i)
		}
	}
	return checkFinite(s.Values, what+" of table "+table.GetName())
}

// slice returns each shard's part of every sample, by ordinal. extra: a last id of value 1 for every
// sample, or negative.
func (s *Sparse) slice(owners []uint16, shards int, extra int64) []Sparse {
	parts, slots := make([]Sparse, shards), uint32(len(owners))
	for i := range parts {
		parts[i].Offsets = make([]int, 1, s.Len()+1)
	}
	add := func(id uint32, value float32) {
		mine := &parts[owners[id%slots]]
		mine.IDs, mine.Values = append(mine.IDs, id), append(mine.Values, value)
	}
	for i := range s.Len() {
		for place := s.Offsets[i]; place < s.Offsets[i+1]; place++ {
			add(s.IDs[place], s.Values[place])
		}
		if extra >= 0 {
			add(uint32(extra), 1)
		}
		for shard := range parts {
			parts[shard].Offsets = append(parts[shard].Offsets, len(parts[shard].IDs))
		}
	}
	return parts
}

func (s *Sparse) offsets() []byte {
	offsets := make([]uint32, len(s.Offsets))
	for i, offset := range s.Offsets {
		offsets[i] = uint32(offset)
	}
	return arrays.IDs(offsets)
}

func (s *Sparse) packed() []byte {
	var packed []byte
	for i := range s.Len() {
		packed = arrays.AppendPackedIDs(packed, s.IDs[s.Offsets[i]:s.Offsets[i+1]])
	}
	return packed
}

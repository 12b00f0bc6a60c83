package dslide

import "slices"

// A part is what one shard owns of rows: their ids, ascending, and their places among all of them.
// Without places they stand side by side from first on.
type part struct {
	ids    []uint32
	places []int
	first  int
}

// deal slices ids by the owners of their slots, by ordinal. Orders are kept.
func deal(ids []uint32, owners []uint16, shards int) []part {
	parts := make([]part, shards)
	if shards == 1 {
		parts[0] = part{ids: ids}
		return parts
	}
	slots, counts := uint32(len(owners)), make([]int, shards)
	for _, id := range ids {
		counts[owners[id%slots]]++
	}
	for shard, count := range counts {
		parts[shard] = part{ids: make([]uint32, 0, count), places: make([]int, 0, count)}
	}
	for place, id := range ids {
		mine := &parts[owners[id%slots]]
		mine.ids, mine.places = append(mine.ids, id), append(mine.places, place)
	}
	return parts
}

func (p part) cut(first, end int) part {
	if p.places == nil {
		return part{ids: p.ids[first:end], first: p.first + first}
	}
	return part{ids: p.ids[first:end], places: p.places[first:end]}
}

func (p part) place(i int) int {
	if p.places == nil {
		return p.first + i
	}
	return p.places[i]
}

func checkIDs(ids []uint32, rows int64, what string) error {
	for i, id := range ids {
		if int64(id) >= rows {
			return invalid("%s: id %d at place %d is outside [0, %d), its rows", what, id, i, rows)
		}
	}
	return nil
}

// ascends says whether ids ascend strictly.
func ascends(ids []uint32) bool {
	for i := 1; i < len(ids); i++ {
		if ids[i] <= ids[i-1] {
			return false
		}
	}
	return true
}

// distinct returns the ids in strictly ascending order, and where each of the given ones is in it.
func distinct(ids []uint32) (unique []uint32, inverse []int) {
	unique = slices.Clone(ids)
	slices.Sort(unique)
	unique = slices.Compact(unique)
	inverse = make([]int, len(ids))
	for i, id := range ids {
		inverse[i], _ = slices.BinarySearch(unique, id)
	}
	return unique, inverse
}

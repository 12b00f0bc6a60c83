package dslide

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	v1 "dslide.dev/gen/dslide/v1"
)

// A ScatterMode says what becomes of the values of a scatter.
type ScatterMode int

const (
	// Gradient runs the table's optimizer once.
	Gradient ScatterMode = ScatterMode(v1.ScatterMode_SCATTER_MODE_GRADIENT)
	// Add adds.
	Add ScatterMode = ScatterMode(v1.ScatterMode_SCATTER_MODE_ADD)
	// Assign replaces, and sets the optimizer's state to 0.
	Assign ScatterMode = ScatterMode(v1.ScatterMode_SCATTER_MODE_ASSIGN)
)

// ScatterOptions are what a scatter may have beside its values. nil: none of it.
type ScatterOptions struct {
	// [n], for tables whose rows have one; nil: 0, and unchanged by Add.
	Biases []float32
	// Of this update by gradients; 0: the model's, by its schedule.
	LearningRate float64
}

// Scatter changes rows by id, each shard's part whole or not at all, and never twice. values: [n, dim].
// Equal ids are added up; Assign refuses them.
//
// A lost answer is asked for again under the same sequence. When an error's MaybeApplied is true,
// nobody knows whether the shard that it names has applied its part; the client's next scatter gives
// that part up, so that it cannot be applied any more after it. Parts of shards that no error names
// are applied. The scatters of one client to one shard wait for each other.
func (m *Model) Scatter(
	ctx context.Context, table string, ids []uint32, values []float32, mode ScatterMode, options *ScatterOptions,
) error {
	spec, owners, err := m.table(table)
	if err != nil {
		return err
	}
	if options == nil {
		options = &ScatterOptions{}
	}
	change := &rowChange{table: spec, mode: mode, ids: ids, values: values, biases: options.Biases,
		rate: options.LearningRate}
	if err := change.check(); err != nil {
		return err
	}
	parts := deal(change.ids, owners, len(m.cluster.shards))
	return m.cluster.eachShard(func(s *shard) error {
		if len(parts[s.ordinal].ids) == 0 {
			return nil
		}
		return s.scatter.apply(ctx, scatterPart{change, parts[s.ordinal], m.spec.GetName(), m.cluster.topology})
	})
}

// A rowChange is one scatter: distinct ids, ascending, and their numbers.
type rowChange struct {
	table          *v1.TableSpec
	mode           ScatterMode
	ids            []uint32
	values, biases []float32
	rate           float64
}

func (c *rowChange) check() error {
	what := "scatter to table " + c.table.GetName()
	dim, hasBias := int(c.table.GetDim()), c.table.GetRole() != "embedding"
	if err := checkIDs(c.ids, c.table.GetRows(), what); err != nil {
		return err
	}
	switch {
	case c.mode < Gradient || c.mode > Assign:
		return invalid("%s: mode %d must be Gradient, Add or Assign", what, c.mode)
	case len(c.values) != len(c.ids)*dim:
		return invalid("%s: %d values are given for %d rows of %d", what, len(c.values), len(c.ids), dim)
	case c.biases != nil && !hasBias:
		return invalid("%s: its rows have no biases", what)
	case c.biases != nil && len(c.biases) != len(c.ids):
		return invalid("%s: %d biases are given for %d rows", what, len(c.biases), len(c.ids))
	case c.rate < 0 || math.IsNaN(c.rate) || math.IsInf(c.rate, 0) || c.rate != 0 && c.mode != Gradient:
		return invalid("%s: LearningRate %g must be finite, above 0 and of mode Gradient", what, c.rate)
	}
	if err := checkFinite(c.values, what+": values"); err != nil {
		return err
	}
	if err := checkFinite(c.biases, what+": biases"); err != nil {
		return err
	}
	if hasBias && c.biases == nil {
		c.biases = make([]float32, len(c.ids))
	}
	if !ascends(c.ids) {
		return c.sort(dim, what)
	}
	return nil
}

// sort puts the rows in order, equal ones added up in the order in which they are given.
func (c *rowChange) sort(dim int, what string) error {
	unique, inverse := distinct(c.ids)
	if len(unique) < len(c.ids) && c.mode == Assign {
		return invalid("%s: row %d is assigned twice in one request: keep one of its values", what, twice(unique, inverse))
	}
	values := make([]float32, len(unique)*dim)
	var biases []float32
	if c.biases != nil {
		biases = make([]float32, len(unique))
	}
	for i, place := range inverse {
		into := values[place*dim : (place+1)*dim]
		for j, value := range c.values[i*dim : (i+1)*dim] {
			into[j] += value
		}
		if biases != nil {
			biases[place] += c.biases[i]
		}
	}
	c.ids, c.values, c.biases = unique, values, biases
	return nil
}

func twice(unique []uint32, inverse []int) uint32 {
	seen := make([]bool, len(unique))
	for _, place := range inverse {
		if seen[place] {
			return unique[place]
		}
		seen[place] = true
	}
	return 0
}

func checkFinite(numbers []float32, what string) error {
	if allFinite(numbers) {
		return nil
	}
	for i, number := range numbers {
		// The exponent of all ones is that of infinities and NaN.
		if math.Float32bits(number)&0x7f800000 == 0x7f800000 {
			return invalid("%s: number %d is %g: it must be finite", what, i, number)
		}
	}
	return nil
}

// Numbers that one goroutine looks at: to start one for fewer costs more than it saves.
const numbersPerCheck = 1 << 17

// allFinite looks at parts side by side: nothing is sent before all of them are checked.
func allFinite(numbers []float32) bool {
	if len(numbers) <= numbersPerCheck {
		return partIsFinite(numbers)
	}
	var parts sync.WaitGroup
	var bad atomic.Bool
	for part := range slices.Chunk(numbers, numbersPerCheck) {
		parts.Go(func() {
			if !partIsFinite(part) {
				bad.Store(true)
			}
		})
	}
	parts.Wait()
	return !bad.Load()
}

// partIsFinite looks at two numbers at a time.
func partIsFinite(numbers []float32) bool {
	// The exponent of all ones is that of infinities and NaN: it alone carries into the sign's place.
	const exponents, one, signs = 0x7f800000_7f800000, 0x00800000_00800000, 0x80000000_80000000
	var a, b, c, d uint64
	pairs := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers)/2)
	for ; len(pairs) >= 4; pairs = pairs[4:] {
		a |= pairs[0]&exponents + one
		b |= pairs[1]&exponents + one
		c |= pairs[2]&exponents + one
		d |= pairs[3]&exponents + one
	}
	for _, pair := range pairs {
		a |= pair&exponents + one
	}
	if len(numbers)%2 == 1 {
		a |= uint64(math.Float32bits(numbers[len(numbers)-1]))&exponents + one
	}
	return (a|b|c|d)&signs == 0
}

package dslide

import (
	"math"
	"math/bits"

	v1 "dslide.dev/gen/dslide/v1"
	"dslide.dev/internal/random"
)

const initPart = 0x1417

// FirstRows returns the weights with which rows of a table begin, [len(ids), dim]: a pure function of
// the model's seed, the table's name and the row. Biases begin as 0.
func FirstRows(table *v1.TableSpec, modelSeed uint64, ids []uint32) []float32 {
	dim := int(table.GetDim())
	values := make([]float32, len(ids)*dim)
	kind, scale := table.GetInit().GetKind(), float32(table.GetInit().GetScale())
	if kind == "zero" {
		return values
	}
	if scale <= 0 {
		scale = float32(1 / math.Sqrt(float64(dim)))
	}
	// A uniform deviate plus a binomial one of 40 fair bits has this variance.
	unit := scale / float32(math.Sqrt(float64(float32(10)+float32(1)/float32(12))))
	key := random.Derive(random.Derive(modelSeed, initPart), random.KeyOfName(table.GetName()))
	for i, id := range ids {
		row := random.Derive(key, uint64(id))
		for j := range dim {
			drawn := random.Bits(row, uint64(j))
			// Products are rounded before sums: no fused operation may take their place.
			if kind == "uniform" {
				values[i*dim+j] = scale * (float32(2*random.Uniform(drawn)) - 1)
				continue
			}
			fraction := float32(float32(drawn&0xffffff)*0x1p-24) + 0x1p-25
			values[i*dim+j] = unit * (float32(bits.OnesCount64(drawn>>24)) - 20.5 + fraction)
		}
	}
	return values
}

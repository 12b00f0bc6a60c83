package order

import "dslide.dev/internal/random"

const (
	featurePart = 0x696E64
	unitPart    = 0x68646F
)

// Dropout says what a step leaves out: a pure function of the job's seed, the epoch and the point, so
// that every client leaves out the same.
type Dropout struct {
	Seed  uint64
	Epoch int64
	// Probabilities, [0, 1).
	Input, Hidden float64
}

// Features returns those of a point that stay, with their transformed values times 1 / (1 - Input).
func (d Dropout) Features(point int64, ids []uint32, values []float32) ([]uint32, []float32) {
	p, key := float32(d.Input), random.Derive(random.Derive(random.Derive(d.Seed, featurePart), uint64(d.Epoch)), uint64(point))
	if p == 0 {
		return ids, values
	}
	keptIDs, keptValues, scale := make([]uint32, 0, len(ids)), make([]float32, 0, len(ids)), 1/(1-p)
	for i, id := range ids {
		if random.Uniform(random.Bits(key, uint64(i))) >= p {
			keptIDs, keptValues = append(keptIDs, id), append(keptValues, values[i]*scale)
		}
	}
	return keptIDs, keptValues
}

// Units leaves out some of a point's units in a layer, from 0, the embedding, in place; those that
// stay are scaled by Scale.
func (d Dropout) Units(layer int, point int64, units []float32) {
	p, key := float32(d.Hidden), random.Derive(random.Derive(d.Seed, unitPart), uint64(layer))
	if p == 0 {
		return
	}
	key = random.Derive(random.Derive(key, uint64(d.Epoch)), uint64(point))
	for i := range units {
		if random.Uniform(random.Bits(key, uint64(i))) < p {
			units[i] = 0
		} else {
			units[i] *= d.Scale()
		}
	}
}

// Scale is 1 / (1 - Hidden), of units that stay and of their gradients.
func (d Dropout) Scale() float32 { return 1 / (1 - float32(d.Hidden)) }

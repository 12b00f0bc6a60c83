// Package order has deterministic orders of points, equal in every client, so that trainers can
// share an epoch. docs/understand/wire.md, section "Random numbers and the order of points", states
// them.
package order

import (
	"fmt"
	"math"
	"math/bits"

	"dslide.dev/internal/random"
)

const (
	epochPart = 0x65706F6368
	splitPart = 0x73706C6974
	rounds    = 8
)

// permutation is a keyed bijection of [0, size): a Feistel network, walked until it falls into the
// range (Black and Rogaway 2002, "Ciphers with arbitrary finite domains").
type permutation struct {
	size, key, lowMask, highMask uint64
	lowBits                      int
}

func newPermutation(size int64, key uint64) permutation {
	width := bits.Len64(uint64(size - 1))
	low := (width + 1) / 2
	return permutation{uint64(size), key, 1<<low - 1, 1<<(width-low) - 1, low}
}

func (p permutation) at(index int64) int64 {
	value := uint64(index)
	for {
		low, high := value&p.lowMask, value>>p.lowBits
		for round := uint64(0); round < rounds; round += 2 {
			high ^= random.Bits(p.key+round, low) & p.highMask
			low ^= random.Bits(p.key+round+1, high) & p.lowMask
		}
		if value = high<<p.lowBits | low; value < p.size {
			return int64(value)
		}
	}
}

func (p permutation) isIdentity() bool {
	for i := range int64(p.size) {
		if p.at(i) != i {
			return false
		}
	}
	return true
}

// An Epoch is the order in which one epoch visits the points; never that of the file.
type Epoch struct{ permutation permutation }

// NewEpoch returns the order of an epoch, from 0, over so many points, at least 1.
func NewEpoch(points int64, seed uint64, epoch int64) Epoch {
	key := random.Derive(random.Derive(seed, epochPart), uint64(epoch))
	p := newPermutation(points, key)
	for attempt := uint64(1); points > 1 && p.isIdentity(); attempt++ {
		p = newPermutation(points, random.Derive(key, attempt))
	}
	return Epoch{p}
}

// PointAt returns the point at a position in [0, points).
func (e Epoch) PointAt(position int64) int64 { return e.permutation.at(position) }

// A Split says which points are held out for validation, by the seed alone.
type Split struct {
	// Points that are trained, and those that are held out.
	Training, Validation int64
	permutation          permutation
}

// NewSplit holds out a fraction, [0, 0.5], of the points, and at most maxValidation; 0: no maximum.
func NewSplit(points int64, seed uint64, fraction float64, maxValidation int64) (Split, error) {
	if points < 1 {
		return Split{}, fmt.Errorf("cannot split %d points: at least 1 is needed", points)
	}
	if !(fraction >= 0 && fraction <= 0.5) {
		return Split{}, fmt.Errorf("the validation fraction %g is outside [0, 0.5]", fraction)
	}
	held := int64(math.Floor(float64(points) * fraction))
	if maxValidation > 0 {
		held = min(held, maxValidation)
	}
	return Split{points - held, held, newPermutation(points, random.Derive(seed, splitPart))}, nil
}

// TrainingPoint returns the index in the data of a training point in [0, Training).
func (s Split) TrainingPoint(number int64) int64 {
	if s.Validation == 0 {
		return number
	}
	return s.permutation.at(number + s.Validation)
}

// ValidationPoint returns the index in the data of a validation point in [0, Validation).
func (s Split) ValidationPoint(number int64) int64 { return s.permutation.at(number) }

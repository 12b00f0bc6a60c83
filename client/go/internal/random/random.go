// Package random has counter-based random numbers: a value is a pure function of a key and a
// counter. They are equal, bit for bit, to those of the shards and of every other client.
// docs/understand/hashing.md, section 2, states them.
package random

import "math/bits"

const golden = 0x9E3779B97F4A7C15

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// Bits returns 64 random bits of a key and a counter.
func Bits(key, counter uint64) uint64 {
	return mix(mix(key+golden) ^ (counter*golden + key))
}

// Derive returns the key of a part of what the key is for.
func Derive(key, part uint64) uint64 {
	return Bits(key^0x6A09E667F3BCC909, part)
}

// KeyOfName returns the key of a table's name.
func KeyOfName(name string) (key uint64) {
	for _, b := range []byte(name) {
		key = Derive(key, uint64(b))
	}
	return key
}

// Uniform returns a number in [0, 1) with 24 bits of resolution.
func Uniform(bits uint64) float32 {
	return float32(bits>>40) * 0x1p-24
}

// Below returns a number in [0, bound): the upper half of the product.
func Below(random, bound uint64) uint64 {
	high, _ := bits.Mul64(random, bound)
	return high
}

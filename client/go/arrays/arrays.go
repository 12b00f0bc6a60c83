// Package arrays has the bulk numbers of messages: little-endian bytes, bf16 and packed ids.
// docs/understand/wire.md, section "Arrays", defines them.
package arrays

import (
	"encoding/binary"
	"math"
)

// ToBF16 returns the upper half of a number, rounded to nearest, ties to even. A NaN stays one.
func ToBF16(x float32) uint16 {
	bits := math.Float32bits(x)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// FromBF16 is exact.
func FromBF16(half uint16) float32 {
	return math.Float32frombits(uint32(half) << 16)
}

// RoundToBF16 rounds numbers in place.
func RoundToBF16(x []float32) {
	for i, value := range x {
		x[i] = FromBF16(ToBF16(value))
	}
}

// Floats returns the bytes of f32 numbers.
func Floats(x []float32) []byte {
	data := make([]byte, 4*len(x))
	for i, value := range x {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(value))
	}
	return data
}

// BF16 returns the bytes of numbers rounded to bf16.
func BF16(x []float32) []byte {
	data := make([]byte, 2*len(x))
	for i, value := range x {
		binary.LittleEndian.PutUint16(data[2*i:], ToBF16(value))
	}
	return data
}

// IDs returns the bytes of u32 numbers.
func IDs(x []uint32) []byte {
	data := make([]byte, 4*len(x))
	for i, value := range x {
		binary.LittleEndian.PutUint32(data[4*i:], value)
	}
	return data
}

// ToFloats reads f32 numbers. A rest of fewer than 4 bytes is left out.
func ToFloats(data []byte) []float32 {
	x := make([]float32, len(data)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return x
}

// ToIDs reads u32 numbers. A rest of fewer than 4 bytes is left out.
func ToIDs(data []byte) []uint32 {
	x := make([]uint32, len(data)/4)
	for i := range x {
		x[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return x
}

// AppendPackedIDs appends one sample's ids, strictly ascending, to packed ids: their number, the
// first one, and for each further one its distance from the one before, less 1.
func AppendPackedIDs(packed []byte, ids []uint32) []byte {
	packed = binary.AppendUvarint(packed, uint64(len(ids)))
	next := uint32(0)
	for _, id := range ids {
		packed = binary.AppendUvarint(packed, uint64(id-next))
		next = id + 1
	}
	return packed
}

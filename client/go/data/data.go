// Package data reads labelled sparse points: the text format of docs/start/data.md.
package data

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"dslide.dev/internal/random"
)

const maxID = 1 << 31

// A Point has features and labels; ids ascend strictly.
type Point struct {
	Features []uint32
	Values   []float32 // of the features
	Labels   []uint32
}

// A Set is points in memory. All trainers of a job must agree on Fingerprint; that of a file is the
// C++ programs'.
type Set struct {
	Points                 []Point
	NumFeatures, NumLabels int64
	Fingerprint            uint64
}

// Read reads a file of the sparse text format, plain or .gz, into memory. Its errors name the line of
// the first malformed place.
func Read(path string) (*Set, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		reader, err := gzip.NewReader(bytes.NewReader(text))
		if err == nil {
			text, err = io.ReadAll(reader)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot unpack %s: %w", path, err)
		}
	}
	set, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return set, nil
}

// Parse reads the content of such a file. Its errors begin with the number of the line.
func Parse(text []byte) (*Set, error) {
	text = bytes.TrimRight(text, "\r\n")
	lines := strings.Split(string(text), "\n")
	sizes := strings.Fields(lines[0])
	var numbers [3]int64
	for i := range numbers {
		var err error
		if len(sizes) == 3 {
			numbers[i], err = strconv.ParseInt(sizes[i], 10, 64)
		}
		if len(sizes) != 3 || err != nil || numbers[i] < 1 || numbers[i] > maxID {
			return nil, fmt.Errorf("1: found %.40q, expected: points features labels, each in [1, %d]", lines[0], maxID)
		}
	}
	set := &Set{NumFeatures: numbers[1], NumLabels: numbers[2]}
	if int64(len(lines)-1) != numbers[0] {
		return nil, fmt.Errorf("%d: found %d points, expected %d as the header says", len(lines), len(lines)-1, numbers[0])
	}
	for i, line := range lines[1:] {
		point, err := set.parse(strings.TrimSuffix(line, "\r"))
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i+2, err)
		}
		set.Points = append(set.Points, point)
	}
	key := random.Derive(random.Derive(uint64(numbers[0]), uint64(numbers[1])), uint64(numbers[2]))
	set.Fingerprint = hashSample(key, text)
	return set, nil
}

// parse reads "label,label feature:value feature:value". The line of a point without labels begins
// with a blank.
func (s *Set) parse(line string) (Point, error) {
	var point Point
	words := strings.Fields(line)
	if len(words) == 0 {
		return point, fmt.Errorf("found nothing, expected a point")
	}
	if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") && !strings.Contains(words[0], ":") {
		for _, word := range strings.Split(words[0], ",") {
			label, err := id(word, s.NumLabels, "a label")
			if err != nil {
				return point, err
			}
			point.Labels = append(point.Labels, label)
		}
		words = words[1:]
	}
	type pair struct {
		id    uint32
		value float32
	}
	pairs := make([]pair, 0, len(words))
	for _, word := range words {
		name, text, _ := strings.Cut(word, ":")
		feature, err := id(name, s.NumFeatures, "feature:value with a feature")
		if err != nil {
			return point, err
		}
		value, err := strconv.ParseFloat(text, 32)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			return point, fmt.Errorf("found %.40q, expected a finite decimal number", text)
		}
		pairs = append(pairs, pair{feature, float32(value)})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.id, b.id) })
	for _, one := range pairs {
		point.Features, point.Values = append(point.Features, one.id), append(point.Values, one.value)
	}
	slices.Sort(point.Labels)
	for _, ids := range [][]uint32{point.Features, point.Labels} {
		for i := 1; i < len(ids); i++ {
			if ids[i] == ids[i-1] {
				return point, fmt.Errorf("the point has id %d twice", ids[i])
			}
		}
	}
	return point, nil
}

func id(word string, size int64, what string) (uint32, error) {
	number, err := strconv.ParseUint(word, 10, 32)
	if err != nil || int64(number) >= size {
		return 0, fmt.Errorf("found %.40q, expected %s id in [0, %d)", word, what, size)
	}
	return uint32(number), nil
}

// hashSample mixes the size of the text and a sample of it, at most 400 KB, into the key.
func hashSample(key uint64, text []byte) uint64 {
	const end, block, blocks = 64 << 10, 4 << 10, 64
	pieces := [][]byte{text[:min(end, len(text))]}
	if len(text) > end {
		pieces = append(pieces, text[len(text)-end:])
		for at := 0; at < len(text); at += max(block, len(text)/blocks) {
			pieces = append(pieces, text[at:min(at+block, len(text))])
		}
	}
	value, castagnoli := random.Bits(key, uint64(len(text))), crc32.MakeTable(crc32.Castagnoli)
	for _, piece := range pieces {
		value = random.Bits(random.Bits(value, uint64(len(piece))), uint64(crc32.Checksum(piece, castagnoli)))
	}
	return value
}

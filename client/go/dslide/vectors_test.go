package dslide_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"dslide.dev/arrays"
	"dslide.dev/dslide"
	v1 "dslide.dev/gen/dslide/v1"
	"dslide.dev/hashing"
	"dslide.dev/internal/testcluster"
	"dslide.dev/order"
)

// A section of what dslide_client_vectors prints: what C++ computes.
type section struct {
	settings json.RawMessage
	arrays   map[string]vector
}

type vector struct {
	data  []byte
	shape []int
}

var widths = map[string]int{"<f4": 4, "<u4": 4, "<u2": 2, "<i8": 8, "<u8": 8, "<f8": 8, "<i4": 4, "<u1": 1}

func sectionsOf(t *testing.T) map[string][]section {
	t.Helper()
	out, found := testcluster.Run(t, "dslide_client_vectors"), map[string][]section{}
	for len(out) > 0 {
		line, rest, _ := bytes.Cut(out, []byte("\n"))
		var header struct {
			Section  string
			Settings json.RawMessage
			Arrays   [][3]json.RawMessage
		}
		if err := json.Unmarshal(line, &header); err != nil {
			t.Fatal(err)
		}
		one := section{header.Settings, map[string]vector{}}
		for _, array := range header.Arrays {
			var name, kind string
			var shape []int
			for i, into := range []any{&name, &kind, &shape} {
				if err := json.Unmarshal(array[i], into); err != nil {
					t.Fatal(err)
				}
			}
			size := widths[kind]
			for _, n := range shape {
				size *= n
			}
			one.arrays[name] = vector{rest[:size], shape}
			rest = rest[size:]
		}
		found[header.Section] = append(found[header.Section], one)
		out = rest
	}
	return found
}

func (s section) read(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(s.settings, into); err != nil {
		t.Fatal(err)
	}
}

func (s section) ids(name string) []uint32     { return arrays.ToIDs(s.arrays[name].data) }
func (s section) floats(name string) []float32 { return arrays.ToFloats(s.arrays[name].data) }

func (s section) longs(name string) []int64 {
	data := s.arrays[name].data
	longs := make([]int64, len(data)/8)
	for i := range longs {
		longs[i] = int64(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return longs
}

// Against C++, bit for bit, over 10,000 seeded cases each.
func TestVectors(t *testing.T) {
	sections := sectionsOf(t)
	for _, check := range []struct {
		name  string
		cases func(*testing.T, section) int
		least int
	}{
		{"fingerprints", checkFingerprints, 20_000},
		{"first_rows", checkFirstRows, 10_000},
		{"bf16", checkRoundings, 10_000},
		{"packed_ids", checkPackedIDs, 10_000},
		{"order", checkOrders, 10_000},
		{"owners", checkOwners, 10_000},
		{"loss", checkLoss, 20_000},
		{"default_spec", checkDefaults, 1},
		{"spec", checkSpec, 6},
	} {
		t.Run(check.name, func(t *testing.T) {
			cases := 0
			for _, one := range sections[check.name] {
				cases += check.cases(t, one)
			}
			if cases < check.least {
				t.Errorf("%d cases, expected at least %d", cases, check.least)
			}
		})
	}
}

func checkFingerprints(t *testing.T, s section) int {
	spec, dim := &v1.HashSpec{}, s.arrays["hidden"].shape[1]
	if err := protojson.Unmarshal(s.settings, spec); err != nil {
		t.Fatal(err)
	}
	family, err := hashing.New(spec, dim, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(family.Hash(s.floats("hidden")), s.ids("fingerprints")) {
		t.Errorf("dim %d, %s: fingerprints differ", dim, s.settings)
	}
	return s.arrays["hidden"].shape[0]
}

func checkFirstRows(t *testing.T, s section) int {
	var settings struct {
		Table, Kind string
		Dim         int64
		Scale       float64
		Seed        uint64
	}
	s.read(t, &settings)
	table := &v1.TableSpec{Name: &settings.Table, Dim: &settings.Dim,
		Init: &v1.InitSpec{Kind: &settings.Kind, Scale: &settings.Scale}}
	rows := s.ids("rows")
	if !bytes.Equal(arrays.Floats(dslide.FirstRows(table, settings.Seed, rows)), s.arrays["values"].data) {
		t.Errorf("%s: rows differ", s.settings)
	}
	return len(rows)
}

func checkRoundings(t *testing.T, s section) int {
	bits := s.ids("bits")
	for i, half := range bits {
		expected := binary.LittleEndian.Uint16(s.arrays["halves"].data[2*i:])
		if got := arrays.ToBF16(math.Float32frombits(half)); got != expected {
			t.Errorf("bits %#x are rounded to %#x, expected %#x", half, got, expected)
		}
	}
	return len(bits)
}

func checkPackedIDs(t *testing.T, s section) int {
	offsets, rows, expected := s.ids("offsets"), s.ids("rows"), s.arrays["bytes"].data
	samples, sizes := s.longs("samples"), s.longs("sizes")
	for i, n := range samples {
		var packed []byte
		for j := range n {
			packed = arrays.AppendPackedIDs(packed, rows[offsets[j]:offsets[j+1]])
		}
		if !bytes.Equal(packed, expected[:sizes[i]]) {
			t.Errorf("case %d: %x, expected %x", i, packed, expected[:sizes[i]])
		}
		rows, offsets, expected = rows[offsets[n]:], offsets[n+1:], expected[sizes[i]:]
	}
	return len(samples)
}

func checkOrders(t *testing.T, s section) int {
	var settings struct {
		Points, Epoch int64
		Seed          uint64
		Fraction      float64
		MaxValidation int64 `json:"max_validation"`
	}
	s.read(t, &settings)
	if settings.MaxValidation == 0 {
		settings.Fraction = 0
	}
	split, err := order.NewSplit(settings.Points, settings.Seed, settings.Fraction, settings.MaxValidation)
	if err != nil {
		t.Fatal(err)
	}
	epoch := order.NewEpoch(split.Training, settings.Seed, settings.Epoch)
	for i, point := range s.longs("order") {
		if got := split.TrainingPoint(epoch.PointAt(int64(i))); got != point {
			t.Fatalf("%s: position %d is point %d, expected %d", s.settings, i, got, point)
		}
	}
	for i, point := range s.longs("validation") {
		if got := split.ValidationPoint(int64(i)); got != point {
			t.Fatalf("%s: validation point %d is %d, expected %d", s.settings, i, got, point)
		}
	}
	return int(settings.Points)
}

func (s section) shorts(name string) []uint16 {
	data := s.arrays[name].data
	shorts := make([]uint16, len(data)/2)
	for i := range shorts {
		shorts[i] = binary.LittleEndian.Uint16(data[2*i:])
	}
	return shorts
}

func checkOwners(t *testing.T, s section) int {
	var settings struct{ Shards int }
	s.read(t, &settings)
	rows, shards := s.ids("rows"), s.shorts("shard_of_row")
	for i, shard := range dslide.ShardsOfRows(rows, s.shorts("owners"), settings.Shards) {
		if shard != int(shards[i]) {
			t.Errorf("row %d is shard %d's, expected %d", rows[i], shard, shards[i])
		}
	}
	return len(rows)
}

func checkLoss(t *testing.T, s section) int {
	var settings struct{ Loss string }
	s.read(t, &settings)
	shards, batch := s.arrays["max_logits"].shape[0], s.arrays["max_logits"].shape[1]
	sum, partitions := dslide.CombineLoss(settings.Loss == "softmax", shards, s.floats("max_logits"), s.floats("exp_sums"),
		s.floats("label_logits"), s.ids("label_offsets"), s.floats("targets"))
	expected := math.Float64frombits(binary.LittleEndian.Uint64(s.arrays["loss_sum"].data))
	if math.Abs(sum-expected) > 1e-9*math.Abs(expected) {
		t.Errorf("%s of %d shards: loss %g, expected %g", settings.Loss, shards, sum, expected)
	}
	theirs := s.floats("log_partitions")
	if len(partitions) != len(theirs) {
		t.Fatalf("%d log partitions, expected %d", len(partitions), len(theirs))
	}
	for i, partition := range partitions {
		// Libraries differ in the last bit of exp and log.
		if math.Abs(float64(partition-theirs[i])) > 1e-6*math.Abs(float64(theirs[i])) {
			t.Errorf("log partition %d is %g, expected %g", i, partition, theirs[i])
		}
	}
	return batch
}

// What this client takes where a spec says nothing is what C++ takes.
func checkDefaults(t *testing.T, s section) int {
	theirs := &v1.ModelSpec{}
	if err := protojson.Unmarshal(s.settings, theirs); err != nil {
		t.Fatal(err)
	}
	training, rates := dslide.Defaults()
	own := theirs.Tables[0].Optimizer
	if !proto.Equal(training, theirs.Training) || *rates.LearningRate != own.GetLearningRate() ||
		!proto.Equal(rates.Schedule, own.Schedule) {
		t.Errorf("%v and %v, expected %v and %v", training, rates, theirs.Training, own)
	}
	head := theirs.Tables[2]
	if got := hashing.Resolve(&v1.HashSpec{}, 1); got.GetFamily() != head.Head.Hash.GetFamily() ||
		got.GetBinSize() != head.Head.Hash.GetBinSize() || got.GetSeed() != head.Head.Hash.GetSeed() {
		t.Errorf("hashing by %v, expected %v", got, head.Head.Hash)
	}
	return 1
}

// Protobuf's JSON form reads the shipped specs as they stand.
func checkSpec(t *testing.T, s section) int {
	var settings struct{ File string }
	s.read(t, &settings)
	text, err := os.ReadFile(filepath.Join("../../../docs/models", settings.File))
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(text, &v1.ModelSpec{}); err != nil {
		t.Errorf("%s: %v", settings.File, err)
	}
	return 1
}

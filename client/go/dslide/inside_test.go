package dslide

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"dslide.dev/arrays"
	v1 "dslide.dev/gen/dslide/v1"
)

// The shards' parts of a softmax are those of all rows, whoever holds them, also where a shard has
// none for a sample.
func TestCombineLoss(t *testing.T) {
	logits := [][]float32{{80, -2, 3.5}, {}, {79, 81}}
	labels := [][]int{{1}, {}, {0, 1}} // places in these
	parts := make([]headPart, len(logits))
	all, ofLabels := 0.0, 0.0
	for shard, own := range logits {
		parts[shard] = headPart{[]float32{float32(math.Inf(-1))}, []float32{0}, nil, &Sparse{}}
		if len(own) > 0 {
			parts[shard].maxLogits[0] = slices.Max(own)
		}
		for _, logit := range own {
			parts[shard].expSums[0] += float32(math.Exp(float64(logit - parts[shard].maxLogits[0])))
			all += math.Exp(float64(logit) - 81)
		}
		var ids []uint32
		for _, place := range labels[shard] {
			ids = append(ids, uint32(place))
			parts[shard].labelLogits = append(parts[shard].labelLogits, own[place])
			ofLabels += float64(own[place])
		}
		parts[shard].labels.Append(ids, nil)
	}
	logZ := 81 + math.Log(all)
	sum, partitions := combineLoss(true, parts, []float32{1.0 / 3})
	if math.Abs(sum-(logZ-ofLabels/3)) > 1e-5 || len(partitions) != 1 || math.Abs(float64(partitions[0])-logZ) > 1e-5 {
		t.Errorf("loss %g and log Z %v, expected %g and %g", sum, partitions, logZ-ofLabels/3, logZ)
	}
	// The sigmoid's sums are added up.
	sum, partitions = combineLoss(false, parts, []float32{1})
	expected := 0.0
	for _, part := range parts {
		expected += float64(part.expSums[0])
	}
	if math.Abs(sum-(expected-ofLabels)) > 1e-5 || partitions != nil {
		t.Errorf("loss %g and %v, expected %g", sum, partitions, expected-ofLabels)
	}
}

func TestLearningRate(t *testing.T) {
	rate, warmup, decay, final := 0.4, int64(10), int64(20), 0.5
	for kind, expected := range map[string]map[int64]float64{
		"constant": {1: 0.04, 10: 0.4, 100: 0.4},
		"linear":   {5: 0.2, 20: 0.3, 100: 0.2},
		"cosine":   {20: 0.3, 15: 0.2 + 0.1*(1+math.Cos(math.Pi/4)), 100: 0.2},
	} {
		optimizer := &v1.OptimizerSpec{LearningRate: &rate, Schedule: &v1.ScheduleSpec{Kind: &kind,
			WarmupSteps: &warmup, DecaySteps: &decay, FinalFraction: &final}}
		for step, want := range expected {
			if got := LearningRate(optimizer, step); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s, step %d: %g, expected %g", kind, step, got, want)
			}
		}
	}
}

// Jobs of one model may differ in how they train it: what is left out has its default, not what the
// model was registered with.
func TestAskedFor(t *testing.T) {
	parse := func(text string) *v1.ModelSpec {
		spec := &v1.ModelSpec{}
		if err := protojson.Unmarshal([]byte(text), spec); err != nil {
			t.Fatal(err)
		}
		return spec
	}
	registered := parse(`{"name": "m", "training": {"batch_size": 64, "max_epochs": 5}, "tables": [
		{"rows": 7, "optimizer": {"kind": "sgd", "learning_rate": 0.5, "schedule": {"warmup_steps": 9}}}, {"role": "memory"}]}`)
	got := askedFor(registered, parse(`{"training": {"max_epochs": 2}, "tables": [
		{"optimizer": {"schedule": {"kind": "cosine"}}}, {}]}`))
	table := got.Tables[0]
	if got.Training.GetBatchSize() != 256 || got.Training.GetMaxEpochs() != 2 || table.GetRows() != 7 ||
		table.Optimizer.GetKind() != "sgd" || table.Optimizer.GetLearningRate() != 0.001 ||
		table.Optimizer.Schedule.GetKind() != "cosine" || table.Optimizer.Schedule.GetWarmupSteps() != 0 ||
		got.Tables[1].Optimizer != nil || registered.Training.GetBatchSize() != 64 {
		t.Errorf("%v", got)
	}
}

// A gather reads what generated code writes, cut into buffers anywhere.
func TestReceiveRows(t *testing.T) {
	ids, values := []uint32{3, 8, 300}, []float32{1, 2, 3, 4, 5, 6}
	message, err := proto.Marshal(&v1.GatherResponse{Rows: &v1.RowBlock{RowIds: arrays.IDs(ids),
		Biases: arrays.Floats(values[:3]), Values: &v1.Matrix{Rows: 3, Cols: 2,
			ElementType: v1.ElementType_ELEMENT_TYPE_F32, Data: arrays.Floats(values)}}})
	if err != nil {
		t.Fatal(err)
	}
	for cut := range message {
		data := mem.BufferSlice{mem.SliceBuffer(message[:cut]), mem.SliceBuffer(message[cut:])}
		rows := &Rows{make([]float32, 8), make([]float32, 4)}
		g := gathering{part: part{ids: ids, places: []int{1, 0, 3}}, dim: 2, rows: rows}
		if err := g.receive(data); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if !slices.Equal(rows.Values, []float32{3, 4, 1, 2, 0, 0, 5, 6}) || !slices.Equal(rows.Biases, []float32{2, 1, 0, 3}) {
			t.Fatalf("cut at %d: %v", cut, rows)
		}
		// A message that ends early is refused.
		g = gathering{part: part{ids: ids}, dim: 2, rows: rows}
		if err := g.receive(data[:1]); err == nil && g.done != 0 {
			t.Fatalf("%d of %d bytes were taken", cut, len(message))
		}
	}
	g := gathering{part: part{ids: []uint32{3, 9, 300}}, dim: 2, rows: &Rows{make([]float32, 6), make([]float32, 3)}}
	if err := g.receive(mem.BufferSlice{mem.SliceBuffer(message)}); err == nil {
		t.Error("rows that were not asked for are taken")
	}
}

// Every place of every length: some numbers are looked at in pairs, the rest one by one.
func TestCheckFinite(t *testing.T) {
	wrong := []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	for size := range 20 {
		numbers := make([]float32, size)
		for i := range numbers {
			numbers[i] = []float32{math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -1, 0}[i%5]
		}
		if err := checkFinite(numbers, "it"); err != nil {
			t.Fatal(err)
		}
		for place := range numbers {
			right := numbers[place]
			for _, numbers[place] = range wrong {
				err := checkFinite(numbers, "it")
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("number %d is", place)) {
					t.Errorf("%v at place %d of %d: %v", numbers[place], place, size, err)
				}
			}
			numbers[place] = right
		}
	}
	many := make([]float32, 2*numbersPerCheck+3)
	for _, place := range []int{0, numbersPerCheck - 1, numbersPerCheck, len(many) - 1} {
		many[place] = wrong[2]
		if err := checkFinite(many, "it"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("number %d is", place)) {
			t.Errorf("NaN at place %d of %d: %v", place, len(many), err)
		}
		many[place] = 1
	}
	if err := checkFinite(many, "it"); err != nil {
		t.Error(err)
	}
}

package dslide_test

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"dslide.dev/dslide"
	v1 "dslide.dev/gen/dslide/v1"
	"dslide.dev/internal/testcluster"
)

// Rows as a trainer with an own optimizer moves them: 10,000 of 128 floats in one call, plaintext on
// loopback. A head, so each has a bias; bytes per second are of the weights.
func benchmarkRows(b *testing.B, shards int, do func(*dslide.Model, []uint32, *dslide.Rows) error) {
	const count, dim = 10_000, 128
	cluster := testcluster.Start(b, testcluster.Options{Shards: shards, Volatile: true}).Dial("trainer")
	name, role, rows, width, all := "bench", "head", int64(200_000), int64(dim), int64(0)
	model, err := cluster.CreateModel(b.Context(), &v1.ModelSpec{Name: &name, Tables: []*v1.TableSpec{
		{Name: &name, Role: &role, Rows: &rows, Dim: &width, Head: &v1.HeadSpec{MaxActive: &all}}}})
	if err != nil {
		b.Fatal(err)
	}
	ids, memory := make([]uint32, count), &dslide.Rows{Values: make([]float32, count*dim)}
	for i := range ids {
		ids[i] = uint32(17 * i)
	}
	if err := do(model, ids, memory); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(4 * count * dim)
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		if err := do(model, ids, memory); err != nil {
			b.Fatal(err)
		}
	}
	// Of this process, on all processors: what remains when the machine is busy.
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
}

func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func BenchmarkGather(b *testing.B) {
	for _, shards := range []int{1, 2} {
		b.Run(strconv.Itoa(shards), func(b *testing.B) {
			benchmarkRows(b, shards, func(model *dslide.Model, ids []uint32, memory *dslide.Rows) error {
				_, err := model.Gather(b.Context(), "bench", ids, &dslide.GatherOptions{Into: memory})
				return err
			})
		})
	}
}

func BenchmarkScatter(b *testing.B) {
	for _, shards := range []int{1, 2} {
		b.Run(strconv.Itoa(shards), func(b *testing.B) {
			benchmarkRows(b, shards, func(model *dslide.Model, ids []uint32, memory *dslide.Rows) error {
				return model.Scatter(b.Context(), "bench", ids, memory.Values, dslide.Add, nil)
			})
		})
	}
}

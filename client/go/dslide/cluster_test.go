package dslide_test

import (
	"context"
	"errors"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"dslide.dev/dslide"
	v1 "dslide.dev/gen/dslide/v1"
	"dslide.dev/internal/testcluster"
)

const seed = 20261126

// modelOf creates a model with the tables input (601 x 16) and labels (5000 x 16).
func modelOf(t *testing.T, cluster *dslide.Cluster, name string) *dslide.Model {
	t.Helper()
	spec := &v1.ModelSpec{}
	text := `{"name": "` + name + `", "tables": [
		{"name": "input", "role": "embedding", "rows": 601, "dim": 16, "bias_row": true},
		{"name": "labels", "role": "head", "rows": 5000, "dim": 16, "optimizer": {"kind": "sgd", "learning_rate": 0.5},
		 "head": {"hash": {"codes_per_table": 5, "num_tables": 10}}}]}`
	if err := protojson.Unmarshal([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	model, err := cluster.CreateModel(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func gather(t *testing.T, model *dslide.Model, table string, ids []uint32) *dslide.Rows {
	t.Helper()
	rows, err := model.Gather(t.Context(), table, ids, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func randomFloats(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = rng.Float32() - 0.5
	}
	return x
}

// Over 1 shard (rows side by side) and 3 (rows in between), and over TLS.
func TestRows(t *testing.T) {
	t.Parallel()
	for _, options := range []testcluster.Options{{Shards: 1}, {Shards: 3, TLS: true}} {
		servers := testcluster.Start(t, options)
		cluster := servers.Dial("trainer")
		if cluster.NumShards() != options.Shards {
			t.Fatalf("%d shards", cluster.NumShards())
		}
		model := modelOf(t, cluster, "rows")
		t.Run("first rows", func(t *testing.T) { testFirstRows(t, model) })
		// Before rows change: hash tables are built anew only now and then.
		t.Run("top k", func(t *testing.T) { testTopK(t, model) })
		t.Run("scatter", func(t *testing.T) { testScatter(t, model) })
		t.Run("bad input", func(t *testing.T) { testBadInput(t, model) })
		if options.TLS {
			t.Run("certificates", func(t *testing.T) { testCertificates(t, servers) })
		}
	}
}

func testFirstRows(t *testing.T, model *dslide.Model) {
	ids := []uint32{0, 599, 3, 599, 17}
	for _, table := range model.Spec().Tables {
		rows, expected := gather(t, model, table.GetName(), ids), dslide.FirstRows(table, model.Spec().GetSeed(), ids)
		if !slices.Equal(rows.Values, expected) {
			t.Errorf("table %s: %v, expected %v", table.GetName(), rows.Values, expected)
		}
		if (rows.Biases != nil) != (table.GetRole() == "head") {
			t.Errorf("table %s: biases %v", table.GetName(), rows.Biases)
		}
	}
	again := &dslide.Rows{}
	for range 2 {
		rows, err := model.Gather(t.Context(), "labels", ids[:2], &dslide.GatherOptions{Into: again})
		if err != nil || rows != again || len(rows.Values) != 32 || len(rows.Biases) != 2 {
			t.Fatalf("%v %v", rows, err)
		}
	}
}

// Every row, also in more than one message, and in every mode.
func testScatter(t *testing.T, model *dslide.Model) {
	rng := rand.New(rand.NewSource(seed))
	for _, table := range model.Spec().Tables {
		name, n := table.GetName(), int(table.GetRows())
		ids := make([]uint32, n)
		for i, id := range rng.Perm(n) {
			ids[i] = uint32(id)
		}
		values, options := randomFloats(rng, 16*n), &dslide.ScatterOptions{}
		if table.GetRole() == "head" {
			options.Biases = randomFloats(rng, n)
		}
		change := func(mode dslide.ScatterMode) *dslide.Rows {
			t.Helper()
			if err := model.Scatter(t.Context(), name, ids, values, mode, options); err != nil {
				t.Fatal(err)
			}
			return gather(t, model, name, ids)
		}
		rows := change(dslide.Assign)
		if !slices.Equal(rows.Values, values) || !slices.Equal(rows.Biases, options.Biases) {
			t.Fatalf("table %s: assigned rows differ", name)
		}
		rows = change(dslide.Add)
		for i, value := range values {
			if rows.Values[i] != value+value {
				t.Fatalf("table %s: number %d is %g, expected %g", name, i, rows.Values[i], value+value)
			}
		}
	}
	// Equal ids are added up, and the optimizer of the head is plain SGD at 0.5.
	before := gather(t, model, "labels", []uint32{7})
	gradient := slices.Repeat([]float32{0.25}, 32)
	if err := model.Scatter(t.Context(), "labels", []uint32{7, 7}, gradient, dslide.Gradient, nil); err != nil {
		t.Fatal(err)
	}
	after := gather(t, model, "labels", []uint32{7})
	if got := after.Values[0] - before.Values[0]; math.Abs(float64(got)+0.25) > 1e-6 || after.Biases[0] != before.Biases[0] {
		t.Errorf("the gradient changed the weight by %g", got)
	}
}

func testTopK(t *testing.T, model *dslide.Model) {
	ids := make([]uint32, 5000)
	for i := range ids {
		ids[i] = uint32(i)
	}
	rows, hidden := gather(t, model, "labels", ids), randomFloats(rand.New(rand.NewSource(seed)), 3*16)
	best, err := model.TopK(t.Context(), "labels", hidden, 4, dslide.Exact)
	if err != nil {
		t.Fatal(err)
	}
	for query := range 3 {
		logits := make([]float64, len(ids))
		for i := range ids {
			logits[i] = float64(rows.Biases[i])
			for j := range 16 {
				logits[i] += float64(hidden[16*query+j]) * float64(rows.Values[16*i+j])
			}
		}
		slices.SortStableFunc(ids, func(a, b uint32) int {
			if logits[a] > logits[b] {
				return -1
			}
			return 1
		})
		if got := best.IDs[4*query : 4*query+4]; !slices.Equal(got, ids[:4]) {
			t.Errorf("query %d: rows %v, expected %v", query, got, ids[:4])
		}
		if math.Abs(float64(best.Logits[4*query])-logits[ids[0]]) > 1e-4 {
			t.Errorf("query %d: logit %g, expected %g", query, best.Logits[4*query], logits[ids[0]])
		}
		slices.Sort(ids)
	}
	// Hashing finds the best row of many a query, and seldom by chance: it scores 1 row of 16.
	const queries = 64
	hidden = randomFloats(rand.New(rand.NewSource(seed)), queries*16)
	exact, err := model.TopK(t.Context(), "labels", hidden, 1, dslide.Exact)
	if err != nil {
		t.Fatal(err)
	}
	found, err := model.TopK(t.Context(), "labels", hidden, 1, dslide.Hashed)
	if err != nil {
		t.Fatal(err)
	}
	hits := 0
	for query, id := range exact.IDs {
		if found.IDs[query] == id {
			hits++
		}
	}
	if hits < queries/4 {
		t.Errorf("hashing found the best row of %d of %d queries", hits, queries)
	}
	// So many rows that all are scored; and few, of which the shards say how many they were.
	all, err := model.TopKWithin(t.Context(), "labels", hidden, 1, 1<<20)
	if err != nil || !slices.Equal(all.IDs, exact.IDs) {
		t.Errorf("%v: a budget of all rows found %v, expected %v", err, all, exact.IDs)
	}
	few, err := model.TopKWithin(t.Context(), "labels", hidden, 1, 64)
	if err != nil {
		t.Fatal(err)
	}
	for query, rows := range few.ScoredRows {
		// Each of up to three shards rounds its share up.
		if rows < 1 || rows > 64+3 || exact.ScoredRows[query] != 5000 {
			t.Errorf("query %d: %d rows were scored of a budget of 64, and %d for the exact answer", query, rows,
				exact.ScoredRows[query])
		}
	}
}

func testBadInput(t *testing.T, model *dslide.Model) {
	ctx, nan := t.Context(), float32(math.NaN())
	values := make([]float32, 16)
	_, unknownTable := model.Gather(ctx, "nothing", nil, nil)
	_, farRow := model.Gather(ctx, "labels", []uint32{1, 5000}, nil)
	_, badK := model.TopK(ctx, "labels", values, 0, dslide.Exact)
	_, badBudget := model.TopKWithin(ctx, "labels", values, 1, 0)
	for said, err := range map[string]error{
		`model "rows" has no table "nothing"; it has: input, labels`:      unknownTable,
		"gather of table labels: id 5000 at place 1 is outside [0, 5000)": farRow,
		"k is 0, must be in [1, 1024]":                                    badK,
		"budget is 0, must be in [1, 2147483648]":                         badBudget,
		"row 3 is assigned twice":                                         model.Scatter(ctx, "labels", []uint32{3, 3}, make([]float32, 32), dslide.Assign, nil),
		"16 values are given for 2 rows of 16":                            model.Scatter(ctx, "labels", []uint32{3, 4}, values, dslide.Add, nil),
		"its rows have no biases":                                         model.Scatter(ctx, "input", []uint32{3}, values, dslide.Add, &dslide.ScatterOptions{Biases: values[:1]}),
		"number 1 is NaN: it must be finite":                              model.Scatter(ctx, "input", []uint32{3}, append([]float32{0, nan}, values[2:]...), dslide.Add, nil),
		"LearningRate 1 must be finite, above 0 and of mode Gradient":     model.Scatter(ctx, "input", []uint32{3}, values, dslide.Add, &dslide.ScatterOptions{LearningRate: 1}),
	} {
		if !errors.Is(err, dslide.ErrInvalidArgument) || !strings.Contains(err.Error(), said) {
			t.Errorf("%v, expected %q", err, said)
		}
	}
}

func testCertificates(t *testing.T, servers *testcluster.Cluster) {
	ctx := t.Context()
	reader := servers.Dial("reader")
	model, err := reader.Model(ctx, "rows")
	if err != nil {
		t.Fatal(err)
	}
	gather(t, model, "labels", []uint32{1})
	err = model.Scatter(ctx, "labels", []uint32{1}, make([]float32, 16), dslide.Add, nil)
	if !errors.Is(err, dslide.ErrPermissionDenied) {
		t.Errorf("a reader's scatter: %v", err)
	}
	foreign := filepath.Join(t.TempDir(), "foreign")
	testcluster.Run(t, "dslide", "certs", "dev", "--output", foreign)
	tls := *servers.TLS("trainer")
	tls.CA = filepath.Join(foreign, "ca.crt")
	for said, tls := range map[string]*dslide.TLS{"the handshake failed: check TLS.CA": &tls, "start the coordinator": nil} {
		_, err := dslide.Dial(ctx, servers.Address, &dslide.Options{TLS: tls, Patience: time.Second})
		if !errors.Is(err, dslide.ErrUnavailable) || !strings.Contains(err.Error(), said) {
			t.Errorf("%v, expected %q", err, said)
		}
	}
}

func TestDialRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none.pem")
	if err := os.WriteFile(file, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for said, call := range map[string]struct {
		address string
		options dslide.Options
	}{
		"the connection would not be encrypted":             {"10.0.0.1:7000", dslide.Options{}},
		`address "here" is not host:port`:                   {"here", dslide.Options{}},
		"give both":                                         {"10.0.0.1:7000", dslide.Options{TLS: &dslide.TLS{Cert: file}}},
		"has no certificate in PEM form":                    {"10.0.0.1:7000", dslide.Options{TLS: &dslide.TLS{CA: file}}},
		`Job "No" is no name`:                               {"127.0.0.1:7000", dslide.Options{Job: "No"}},
		`RequestID "a b" is not 1 to 64 visible`:            {"127.0.0.1:7000", dslide.Options{RequestID: "a b"}},
		"Timeout -1ns and Patience 0s must not be negative": {"127.0.0.1:7000", dslide.Options{Timeout: -1}},
	} {
		_, err := dslide.Dial(t.Context(), call.address, &call.options)
		if !errors.Is(err, dslide.ErrInvalidArgument) || !strings.Contains(err.Error(), said) {
			t.Errorf("%v, expected %q", err, said)
		}
	}
}

// What a program can do with an error.
func TestErrors(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Start(t, testcluster.Options{Shards: 1}).Dial("trainer")
	_, err := cluster.Model(t.Context(), "unheard-of")
	if !errors.Is(err, dslide.ErrNotFound) || !errors.Is(err, dslide.Reason("UNKNOWN_MODEL")) ||
		!strings.Contains(err.Error(), `no model "unheard-of"; it has none: train one first`) {
		t.Error(err)
	}
	var e *dslide.Error
	err = cluster.DeleteJob(t.Context(), "unheard-of")
	if !errors.As(err, &e) || e.Reason != "UNKNOWN_JOB" || len(e.RequestID) != 16 || e.MaybeApplied ||
		!strings.HasPrefix(err.Error(), "coordinator at 127.0.0.1:") {
		t.Errorf("%#v", e)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cluster.Status(cancelled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	model := modelOf(t, cluster, "small")
	if err := cluster.DropModel(t.Context(), "small"); err != nil {
		t.Fatal(err)
	}
	err = model.Scatter(t.Context(), "labels", []uint32{1}, make([]float32, 16), dslide.Add, nil)
	if !errors.As(err, &e) || e.Reason != "UNKNOWN_MODEL" || e.MaybeApplied {
		t.Errorf("%#v", e)
	}
}

// Every update adds 1 to a cell of its own, so the rows say of each how often it was applied, while
// shards are killed and started again.
func TestEveryUpdateIsAppliedOnce(t *testing.T) {
	t.Parallel()
	const updates, dim = 200, 8
	servers := testcluster.Start(t, testcluster.Options{Shards: 2})
	cluster := servers.Dial("trainer")
	kind, name, rows, width := "zero", "cells", int64(2*updates), int64(dim)
	model, err := cluster.CreateModel(t.Context(), &v1.ModelSpec{Name: &name, Tables: []*v1.TableSpec{
		{Name: &name, Rows: &rows, Dim: &width, Init: &v1.InitSpec{Kind: &kind}}}})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]uint32, rows)
	for i := range ids {
		ids[i] = uint32(i)
	}
	reached, killed := make(chan int, updates), make(chan struct{})
	go func() {
		defer close(killed)
		shard := 0
		for number := range reached {
			if number%50 == 25 {
				servers.RestartShard(shard)
				shard = 1 - shard
			}
		}
	}()
	for number := range updates {
		reached <- number
		values := make([]float32, rows*dim)
		values[number*dim+number%dim] = 1
		values[(updates+number)*dim] = 1
		if err := model.Scatter(t.Context(), name, ids, values, dslide.Add, nil); err != nil {
			t.Fatal(err)
		}
	}
	close(reached)
	<-killed
	applied := gather(t, model, name, ids).Values
	for row := range int(rows) {
		for j, value := range applied[row*dim : (row+1)*dim] {
			expected := float32(0)
			if row < updates && j == row%dim || row >= updates && j == 0 {
				expected = 1
			}
			if value != expected {
				t.Fatalf("cell %d, %d is %g, expected %g", row, j, value, expected)
			}
		}
	}
	parts, err := model.Describe(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for shard, part := range parts {
		if steps := part.Tables[0].AppliedSteps; steps != updates {
			t.Errorf("shard %d has applied %d updates, expected %d", shard, steps, updates)
		}
	}
}

// A change whose caller gives up is applied once or not at all, also after later ones; one that is
// said not to be applied is not.
func TestCallsThatAreCutShort(t *testing.T) {
	t.Parallel()
	const updates, dim = 60, 512
	cluster := testcluster.Start(t, testcluster.Options{Shards: 2, Volatile: true}).Dial("trainer")
	kind, name, rows, width := "zero", "cells", int64(2000), int64(dim)
	model, err := cluster.CreateModel(t.Context(), &v1.ModelSpec{Name: &name, Tables: []*v1.TableSpec{
		{Name: &name, Rows: &rows, Dim: &width, Init: &v1.InitSpec{Kind: &kind}}}})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]uint32, rows)
	for i := range ids {
		ids[i] = uint32(i)
	}
	draw, fates := rand.New(rand.NewSource(seed)), make([]error, updates)
	for number := range updates {
		ctx, cancel := context.WithCancel(t.Context())
		if number%3 > 0 {
			ctx, cancel = context.WithTimeout(t.Context(), time.Duration(draw.Intn(20_000))*time.Microsecond)
		}
		values := make([]float32, rows*dim)
		for row := range int(rows) {
			values[row*dim+number] = 1
		}
		fates[number] = model.Scatter(ctx, name, ids, values, dslide.Add, nil)
		cancel()
		clear(values) // what is still under way must not see it
	}
	applied, cut := gather(t, model, name, ids).Values, 0
	for number, fate := range fates {
		if fate != nil {
			cut++
			if number%3 == 0 {
				t.Errorf("update %d: %v", number, fate)
			}
		}
		for row := range int(rows) {
			value := applied[row*dim+number]
			if value != 1 && fate == nil || value != 0 && value != 1 {
				t.Fatalf("update %d, row %d: %g after %v", number, row, value, fate)
			}
		}
	}
	t.Logf("%d of %d updates were cut short", cut, updates)
}

// Steps go on after one whose caller has given up.
func TestStepsThatAreCutShort(t *testing.T) {
	t.Parallel()
	model := modelOf(t, testcluster.Start(t, testcluster.Options{Shards: 2, Volatile: true}).Dial("trainer"), "steps")
	steps, err := model.OpenSteps(t.Context(), "short")
	if err != nil {
		t.Fatal(err)
	}
	defer steps.Close()
	features, labels := &dslide.Sparse{}, &dslide.Sparse{}
	features.Append([]uint32{1, 5, 30}, nil)
	labels.Append([]uint32{7, 9}, nil)
	if _, err := steps.EmbedForward(t.Context(), features); !errors.Is(err, dslide.ErrFailedPrecondition) {
		t.Errorf("a step that was not begun: %v", err)
	}
	for number := range 12 {
		steps.Begin()
		if number%2 == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(number)*100*time.Microsecond)
			_, _ = steps.EmbedForward(ctx, features)
			cancel()
			steps.Begin()
		}
		sums, err := steps.EmbedForward(t.Context(), features)
		if err != nil {
			t.Fatal(err)
		}
		model.Activate(sums)
		head, err := steps.HeadForward(t.Context(), sums, labels)
		if err != nil || head.LossSum <= 0 || head.ActivePairs < 2 {
			t.Fatalf("%+v %v", head, err)
		}
		gradient, err := steps.HeadBackward(t.Context(), head, 0.1)
		if err != nil {
			t.Fatal(err)
		}
		if err := steps.EmbedBackward(t.Context(), gradient, 0.1); err != nil {
			t.Fatal(err)
		}
	}
	parts, err := model.Describe(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for shard, part := range parts {
		for _, table := range part.Tables {
			if table.AppliedSteps != 12 {
				t.Errorf("shard %d, table %s: %d updates, expected 12", shard, table.Name, table.AppliedSteps)
			}
		}
	}
}

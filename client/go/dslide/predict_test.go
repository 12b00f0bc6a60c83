package dslide_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dslide.dev/data"
	"dslide.dev/dslide"
	v1 "dslide.dev/gen/dslide/v1"
	"dslide.dev/internal/testcluster"
)

type scored struct {
	Label uint32
	Logit float64
}

// A model with a dense layer, in which one thread trains all rows.
const halfModel = `{"name": "half", "activations": "bf16", "tables": [
	{"name": "input", "dim": 24, "optimizer": {"learning_rate": 0.01}},
	{"name": "middle", "role": "dense", "rows": 16, "dim": 24, "optimizer": {"learning_rate": 0.01}},
	{"name": "labels", "role": "head", "dim": 16, "optimizer": {"learning_rate": 0.01}, "head": {"max_active": 0}}],
	"training": {"transform": "raw", "batch_size": 64, "max_epochs": 2, "in_flight_steps": 1, "validation_fraction": 0}}`

// Labels and logits of a model that `dslide train` has trained are those of `dslide predict`, and of
// `dslide serve`. All rows are active and one thread trains, so every run trains the same model.
func TestPredictionsAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	servers := testcluster.Start(t, testcluster.Options{Shards: 3})
	train, test := filepath.Join(t.TempDir(), "train.txt"), filepath.Join(t.TempDir(), "test.txt")
	for path, first := range map[string]string{train: "0", test: "600"} {
		count := map[string]string{train: "600", test: "1"}[path]
		testcluster.Run(t, "dslide", "data", "gen", "--output", path, "--points", count, "--first-point", first,
			"--features", "300", "--labels", "400", "--seed", "7")
	}
	points, err := data.Read(test)
	if err != nil {
		t.Fatal(err)
	}
	cluster := servers.Dial("trainer")
	half := filepath.Join(t.TempDir(), "half.json")
	if err := os.WriteFile(half, []byte(halfModel), 0o600); err != nil {
		t.Fatal(err)
	}
	// Two that differ in all that prediction depends on.
	for name, flags := range map[string][]string{
		"single": {"--activations", "f32", "--transform", "l2", "--dim", "24", "--epochs", "2", "--batch-size", "64", "--in-flight",
			"1", "--max-active", "0", "--learning-rate", "0.01", "--validation-fraction", "0"},
		"half": {"--model", half}} {
		common := append([]string{"--cluster", servers.Address, "--name", name}, servers.TLSFlags("trainer", "--tls-")...)
		testcluster.Run(t, "dslide", append(append([]string{"train", "-q", "--data", train, "--job", name,
			"--threads", "1"}, common...), flags...)...)
		expected := predicted(t, testcluster.Run(t, "dslide", append([]string{"predict", "-o", "json", "--data", test}, common...)...))
		model, err := cluster.Model(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		features := &dslide.Sparse{}
		features.Append(points.Points[0].Features, points.Points[0].Values)
		if name == "single" {
			features.Scale()
		}
		hidden, err := model.Hidden(t.Context(), features)
		if err != nil {
			t.Fatal(err)
		}
		tables := model.Spec().Tables
		best, err := model.TopK(t.Context(), tables[len(tables)-1].GetName(), hidden, len(expected), dslide.Exact)
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range expected {
			if best.IDs[i] != one.Label || math.Abs(float64(best.Logits[i])-one.Logit) > 1e-3 {
				t.Errorf("model %s: label %d at %g, expected %+v", name, best.IDs[i], best.Logits[i], one)
			}
		}
		t.Run("serve "+name, func(t *testing.T) { testServed(t, servers, name, points.Points[0], expected) })
	}
}

func predicted(t *testing.T, out []byte) []scored {
	t.Helper()
	var said struct{ Predictions []scored }
	if err := json.Unmarshal(out, &said); err != nil || len(said.Predictions) < 5 {
		t.Fatalf("%v: %s", err, out)
	}
	return said.Predictions
}

func testServed(t *testing.T, servers *testcluster.Cluster, name string, point data.Point, expected []scored) {
	address := servers.Serve(name)
	server, err := dslide.DialPredictor(address, servers.Options("reader"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	served, err := server.Model(t.Context())
	if err != nil || served.Model != name || served.NumLabels != 400 {
		t.Fatalf("%v %v", served, err)
	}
	results, err := server.Predict(t.Context(), []*v1.PredictQuery{dslide.Features(point.Features, point.Values)},
		&dslide.PredictOptions{TopK: 5, Mode: v1.PredictMode_PREDICT_MODE_EXACT})
	if err != nil || len(results) != 1 || len(results[0].Labels) != 5 {
		t.Fatalf("%v %v", results, err)
	}
	for i, label := range results[0].Labels {
		if label.Id != expected[i].Label || math.Abs(float64(label.Score)-expected[i].Logit) > 1e-3 {
			t.Errorf("label %v, expected %+v", label, expected[i])
		}
	}
	_, err = server.Predict(t.Context(), []*v1.PredictQuery{dslide.Text("a web server")}, nil)
	var e *dslide.Error
	if !errors.As(err, &e) || e.Reason != "WRONG_INPUT" || !strings.Contains(err.Error(), "dslide serve at ") {
		t.Error(err)
	}
}

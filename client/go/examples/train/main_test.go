package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dslide.dev/internal/testcluster"
)

func runTrain(t *testing.T, arguments ...string) report {
	t.Helper()
	var out, said bytes.Buffer
	if err := run(t.Context(), arguments, &out, &said); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	t.Logf("%s%s", &said, &out)
	var done report
	if err := json.Unmarshal(out.Bytes(), &done); err != nil {
		t.Fatal(err)
	}
	return done
}

// The program as its users start it, over TLS.
func TestItLearns(t *testing.T) {
	t.Parallel()
	servers := testcluster.Start(t, testcluster.Options{Shards: 2, TLS: true})
	done := runTrain(t, append(servers.TLSFlags("trainer", "--"), "--cluster", servers.Address)...)
	// 5 epochs of 5,400 points in leases of 2,048, each of 16 batches but the last one of an epoch.
	if done.Model != "small" || done.Job != "train-small" || done.Samples != 5*5400 || done.Steps != 5*43 {
		t.Errorf("%+v", done)
	}
	if done.BestP1 < 0.7 {
		t.Errorf("P@1 %g: nothing was learned", done.BestP1)
	}
	// A job ends once.
	again := runTrain(t, append(servers.TLSFlags("trainer", "--"), "--cluster", servers.Address)...)
	if again.Steps != 0 || again.BestP1 != done.BestP1 {
		t.Errorf("%+v, after %+v", again, done)
	}
}

// It and `dslide train` share the chunks of one job while a shard is killed and started again; every
// step is one update of each table on each shard, none is lost and none doubled.
func TestItSharesAJob(t *testing.T) {
	t.Parallel()
	servers := testcluster.Start(t, testcluster.Options{Shards: 2, TLS: true})
	folder := t.TempDir()
	points, model := filepath.Join(folder, "train.txt"), filepath.Join(folder, "model.json")
	testcluster.Run(t, "dslide", "data", "gen", "--output", points, "--points", "6000", "--features", "500", "--labels", "2000")
	text := strings.Replace(smallModel, `"validation_fraction": 0.1`, `"validation_fraction": 0`, 1)
	if err := os.WriteFile(model, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	theirs := exec.CommandContext(t.Context(), filepath.Join(testcluster.Programs(t), "dslide"),
		append([]string{"train"}, append(servers.TLSFlags("trainer", "--tls-"), "-q", "-o", "json", "--data", points, "--model", model,
			"--cluster", servers.Address, "--job", "both", "--timeout", "300s")...)...)
	var out, said bytes.Buffer
	theirs.Stdout, theirs.Stderr = &out, &said
	if err := theirs.Start(); err != nil {
		t.Fatal(err)
	}
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		servers.AwaitUpdates(t.Context(), "small", 10)
		servers.RestartShard(1)
	}()
	own := runTrain(t, append(servers.TLSFlags("trainer", "--"), "--cluster", servers.Address, "--data", points,
		"--model", model, "--job", "both")...)
	<-killed
	if err := theirs.Wait(); err != nil {
		t.Fatalf("dslide train: %v\n%s", err, &said)
	}
	var other struct{ Steps int64 }
	if err := json.Unmarshal(bytes.TrimSpace(out.Bytes()), &other); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if own.Steps == 0 || other.Steps == 0 {
		t.Errorf("%d steps here and %d there: they did not share the job", own.Steps, other.Steps)
	}
	opened, err := servers.Dial("trainer").Model(t.Context(), "small")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := opened.Describe(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for shard, part := range parts {
		for _, table := range part.Tables {
			if table.AppliedSteps != own.Steps+other.Steps {
				t.Errorf("shard %d, table %s: %d updates, expected %d + %d", shard, table.Name, table.AppliedSteps,
					own.Steps, other.Steps)
			}
		}
	}
}

func TestWhatItRefuses(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "bad.txt")
	if err := os.WriteFile(file, []byte("1 5 9\n1 7:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for said, arguments := range map[string][]string{
		`bad.txt:2: found "7", expected feature:value`: {"--data", file},
		"is no model":            {"--model", file},
		`there are no arguments`: {"here"},
		"is not host:port":       {"--cluster", "here"},
	} {
		var out bytes.Buffer
		if err := run(context.Background(), arguments, &out, &out); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%v: %v, expected %q", arguments, err, said)
		}
	}
}

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"dslide.dev/dslide"
	v1 "dslide.dev/gen/dslide/v1"
	"dslide.dev/internal/testcluster"
)

// What `dslide conformance` asks of a client: docs/contribute/conformance.md.
type course struct {
	Coordinator string
	Models      []json.RawMessage
	Tasks       []task
}

type task struct {
	Do, Model, Table, Spec, Points, Job string
	Rows                                []uint32
	Values, Queries                     [][]float32
	K                                   int
	Answers                             struct {
		Model, Table string
		FirstRow     uint32 `json:"first_row"`
	}
}

type examiner struct {
	command *exec.Cmd
	stdin   io.Closer
	out     *bufio.Reader
	told    bytes.Buffer
}

func examine(t *testing.T, folder string) (*examiner, *course) {
	t.Helper()
	program := filepath.Join(testcluster.Programs(t), "dslide")
	e := &examiner{command: exec.Command(program, "conformance", "-o", "json", "--listen", "127.0.0.1:0",
		"--course", folder, "--until-stdin-ends")}
	e.command.Stderr = &e.told
	stdin, err := e.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := e.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	e.stdin, e.out = stdin, bufio.NewReader(stdout)
	if err := e.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.command.Process.Kill() })
	if _, err := e.out.ReadBytes('\n'); err != nil { // the course is written by then
		t.Fatalf("%v\n%s", err, &e.told)
	}
	text, err := os.ReadFile(filepath.Join(folder, "course.json"))
	if err != nil {
		t.Fatal(err)
	}
	asked := &course{}
	if err := json.Unmarshal(text, asked); err != nil {
		t.Fatal(err)
	}
	return e, asked
}

func (e *examiner) verdicts(t *testing.T) {
	t.Helper()
	_ = e.stdin.Close()
	said, err := io.ReadAll(e.out)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.command.Wait(); err != nil {
		t.Errorf("%v: %s\n%s", err, said, &e.told)
	}
}

func flat(rows [][]float32) []float32 {
	var values []float32
	for _, row := range rows {
		values = append(values, row...)
	}
	return values
}

// answer does a task and returns what is to be assigned to the answers, if anything is.
func (asked *task) answer(t *testing.T, model *dslide.Model) ([]float32, error) {
	t.Helper()
	switch asked.Do {
	case "gather":
		rows, err := model.Gather(t.Context(), asked.Table, asked.Rows, nil)
		if err != nil {
			return nil, err
		}
		return rows.Values, nil
	case "first_rows":
		for _, table := range model.Spec().Tables {
			if table.GetName() == asked.Table {
				return dslide.FirstRows(table, model.Spec().GetSeed(), asked.Rows), nil
			}
		}
	case "top_k":
		best, err := model.TopK(t.Context(), asked.Table, flat(asked.Queries), asked.K, dslide.Exact)
		if err != nil {
			return nil, err
		}
		var ids []float32
		for _, id := range best.IDs {
			ids = append(ids, float32(id))
		}
		return ids, nil
	case "scatter":
		return nil, model.Scatter(t.Context(), asked.Table, asked.Rows, flat(asked.Values), dslide.Add, nil)
	}
	return nil, nil
}

// The package and this example pass the whole course of `dslide conformance`.
func TestItPassesTheCourse(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "course")
	server, asked := examine(t, folder)
	cluster, err := dslide.Dial(t.Context(), asked.Coordinator, nil)
	if err != nil {
		t.Fatal(err)
	}
	models := map[string]*dslide.Model{}
	for _, text := range asked.Models {
		spec := &v1.ModelSpec{}
		if err := protojson.Unmarshal(text, spec); err != nil {
			t.Fatal(err)
		}
		if models[spec.GetName()], err = cluster.CreateModel(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	for _, task := range asked.Tasks {
		if task.Do == "train" {
			runTrain(t, "--cluster", asked.Coordinator, "--model", filepath.Join(folder, task.Spec),
				"--data", filepath.Join(folder, task.Points), "--job", task.Job)
			continue
		}
		values, err := task.answer(t, models[task.Model])
		if err != nil {
			t.Fatalf("%s: %v\n%s", task.Do, err, &server.told)
		}
		var rows []uint32
		for i := range len(values) / 12 { // the answers' dim
			rows = append(rows, task.Answers.FirstRow+uint32(i))
		}
		if len(rows) == 0 {
			continue
		}
		to := task.Answers
		if err := models[to.Model].Scatter(t.Context(), to.Table, rows, values, dslide.Assign, nil); err != nil {
			t.Fatalf("%s: %v\n%s", task.Do, err, &server.told)
		}
	}
	if err := cluster.Close(); err != nil {
		t.Error(err)
	}
	server.verdicts(t)
}

// Adds 1 to four rows for each line of stdin, and says of every update what became of it.
//
//	go run ./examples/increments COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]
//
// Update n, from 0, is of the rows FIRST_ROW + 4 n and the three after it. stdout: a line of JSON
// for each update, {"update", "outcome", "reason"}.
//
// A line "step 2" asks for two operations of a step stream instead, updates n and n + 1: each the sum
// of row n of another model, which the answer has as "value".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"dslide.dev/dslide"
	v1 "dslide.dev/gen/dslide/v1"
)

const (
	rows         = 200_000
	rowsOfUpdate = 4
	cells        = "cells" // the model, and its only table
	stepsModel   = "steps" // of the operations
)

type said struct {
	Update  uint32 `json:"update"`
	Outcome string `json:"outcome"` // applied; refused: nowhere; unknown
	Reason  string `json:"reason"`
	// Of an operation of a step stream.
	Value float32 `json:"value"`
}

func outcomeOf(err error) (outcome, reason string) {
	if err == nil {
		return "applied", ""
	}
	var e *dslide.Error
	if errors.As(err, &e) && !e.MaybeApplied {
		return "refused", e.Reason
	} else if e != nil {
		return "unknown", e.Reason
	}
	return "unknown", ""
}

func table(name, role string, rows int64) *v1.TableSpec {
	return &v1.TableSpec{Name: proto.String(name), Role: proto.String(role), Rows: proto.Int64(rows), Dim: proto.Int64(1),
		Optimizer: &v1.OptimizerSpec{Kind: proto.String("sgd")}, Init: &v1.InitSpec{Kind: proto.String("zero")}}
}

func openSteps(ctx context.Context, cluster *dslide.Cluster) (*dslide.Steps, error) {
	head := table("head", "head", 8)
	head.Head = &v1.HeadSpec{MaxActive: proto.Int64(0)}
	model, err := cluster.CreateModel(ctx, &v1.ModelSpec{Name: proto.String(stepsModel),
		Tables: []*v1.TableSpec{table(cells, "embedding", rows), head}})
	if err != nil {
		return nil, err
	}
	return model.OpenSteps(ctx, stepsModel)
}

// operation is a step of its own: the sum of one row.
func operation(ctx context.Context, steps *dslide.Steps, row uint32) said {
	var features dslide.Sparse
	features.Append([]uint32{row}, []float32{1})
	steps.Begin()
	sums, err := steps.EmbedForward(ctx, &features)
	done := said{Update: row}
	done.Outcome, done.Reason = outcomeOf(err)
	if err == nil {
		done.Value = sums[0]
	}
	return done
}

func run(ctx context.Context, coordinator string, firstRow uint32, options *dslide.Options) error {
	cluster, err := dslide.Dial(ctx, coordinator, options)
	if err != nil {
		return err
	}
	defer cluster.Close()
	model, err := cluster.CreateModel(ctx, &v1.ModelSpec{Name: proto.String(cells), Tables: []*v1.TableSpec{
		table(cells, "embedding", rows)}})
	if err != nil {
		return err
	}
	out, lines := json.NewEncoder(os.Stdout), bufio.NewScanner(os.Stdin)
	var steps *dslide.Steps
	defer func() {
		if steps != nil {
			steps.Close()
		}
	}()
	for update := uint32(0); lines.Scan(); update++ {
		if count, isStep := strings.CutPrefix(lines.Text(), "step "); isStep {
			if steps == nil {
				if steps, err = openSteps(ctx, cluster); err != nil {
					return err
				}
			}
			end, err := strconv.Atoi(count)
			if err != nil {
				return err
			}
			for ; end > 0; end-- {
				if err := out.Encode(operation(ctx, steps, update)); err != nil {
					return err
				}
				update++
			}
			update-- // the loop counts one
			continue
		}
		first := firstRow + rowsOfUpdate*update
		err := model.Scatter(ctx, cells, []uint32{first, first + 1, first + 2, first + 3}, []float32{1, 1, 1, 1},
			dslide.Add, nil)
		outcome, reason := outcomeOf(err)
		if err := out.Encode(said{Update: update, Outcome: outcome, Reason: reason}); err != nil {
			return err
		}
	}
	return lines.Err()
}

func main() {
	arguments := os.Args[1:]
	var firstRow uint64
	var timeout float64
	usable := len(arguments) == 3 || len(arguments) == 6
	if usable {
		var failed, failedToo error
		firstRow, failed = strconv.ParseUint(arguments[1], 10, 32)
		timeout, failedToo = strconv.ParseFloat(arguments[2], 64)
		usable = failed == nil && failedToo == nil
	}
	if !usable {
		fmt.Fprintln(os.Stderr, "usage: increments COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]")
		os.Exit(2)
	}
	limit := time.Duration(timeout * float64(time.Second))
	options := &dslide.Options{Timeout: limit, Patience: limit}
	if len(arguments) == 6 {
		options.TLS = &dslide.TLS{CA: arguments[3], Cert: arguments[4], Key: arguments[5]}
	}
	if err := run(context.Background(), arguments[0], uint32(firstRow), options); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

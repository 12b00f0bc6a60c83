// Trains an embedding and a hashed head on a dslide cluster and measures what they have learned.
//
//	go run ./examples/train --cluster 127.0.0.1:7000
//
// Without --data it makes a small set of points. With --data and --model it shares the job with
// trainers in other languages that are given the same files.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"dslide.dev/data"
	"dslide.dev/dslide"
	v1 "dslide.dev/gen/dslide/v1"
)

// Small enough to be learned in seconds; a sample scores 100 rows of 1,000.
const smallModel = `{
  "name": "small", "activations": "bf16",
  "tables": [
    {"name": "input", "role": "embedding", "dim": 32, "bias_row": true, "optimizer": {"learning_rate": 0.05}},
    {"name": "labels", "role": "head", "dim": 32, "optimizer": {"learning_rate": 0.05},
     "head": {"max_active": 100, "tail_rows": 64}}
  ],
  "training": {"batch_size": 128, "max_epochs": 5, "validation_fraction": 0.1}
}`

type settings struct {
	cluster, data, model, name, job string
	tls                             dslide.TLS
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, out, said io.Writer) error {
	s, err := parse(arguments, said)
	if err != nil {
		return err
	}
	points := generated()
	if s.data != "" {
		if points, err = data.Read(s.data); err != nil {
			return err
		}
	}
	spec, err := specOf(s, points)
	if err != nil {
		return err
	}
	// A trainer outlives the restart of a server.
	options := &dslide.Options{Timeout: 5 * time.Minute, Patience: 2 * time.Minute}
	if s.tls != (dslide.TLS{}) {
		options.TLS = &s.tls
	}
	dialling, cancel := context.WithTimeout(ctx, 10*time.Second) // a wrong address is told soon
	defer cancel()
	cluster, err := dslide.Dial(dialling, s.cluster, options)
	if err != nil {
		return err
	}
	defer cluster.Close()
	model, err := cluster.CreateModel(ctx, spec)
	if err != nil {
		return err
	}
	job := s.job
	if job == "" {
		job = "train-" + spec.GetName()
	}
	report, err := train(ctx, model, points, job, said)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(report)
}

func parse(arguments []string, said io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	flags.SetOutput(said)
	flags.StringVar(&s.cluster, "cluster", "127.0.0.1:7000", "HOST:PORT of the coordinator")
	flags.StringVar(&s.data, "data", "", "sparse text file of points; empty: a small set that is made")
	flags.StringVar(&s.model, "model", "", "JSON file of the model; empty: a small one")
	flags.StringVar(&s.name, "name", "", "name of the model; empty: that of the file")
	flags.StringVar(&s.job, "job", "", "trainers of one job share its work; empty: train- and the model's name")
	flags.StringVar(&s.tls.CA, "ca", "", "PEM file of the authorities of the servers")
	flags.StringVar(&s.tls.Cert, "cert", "", "PEM file of the own certificate")
	flags.StringVar(&s.tls.Key, "key", "", "PEM file of its key")
	if err := flags.Parse(arguments); err != nil {
		return s, flag.ErrHelp // it has been said
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("there are no arguments beside flags, found %q", flags.Arg(0))
	}
	return s, nil
}

func specOf(s settings, points *data.Set) (*v1.ModelSpec, error) {
	text, spec := []byte(smallModel), &v1.ModelSpec{}
	if s.model != "" {
		var err error
		if text, err = os.ReadFile(s.model); err != nil {
			return nil, err
		}
	}
	if err := protojson.Unmarshal(text, spec); err != nil {
		return nil, fmt.Errorf("%s is no model: %w", s.model, err)
	}
	if s.name != "" {
		spec.Name = &s.name
	}
	return dslide.FitSpec(spec, points.NumFeatures, points.NumLabels)
}

package dslide

import (
	"google.golang.org/protobuf/proto"

	v1 "dslide.dev/gen/dslide/v1"
	"dslide.dev/hashing"
)

// askedFor returns a registered model with what jobs may differ in as it was asked for, defaults
// included: how it is trained, and the rates of its tables.
func askedFor(registered, asked *v1.ModelSpec) *v1.ModelSpec {
	spec := proto.Clone(registered).(*v1.ModelSpec)
	spec.Training = defaultTraining()
	proto.Merge(spec.Training, asked.Training)
	for i, table := range spec.Tables {
		if table.Optimizer == nil || i >= len(asked.Tables) {
			continue
		}
		rates := defaultRates()
		if own := asked.Tables[i].Optimizer; own != nil {
			proto.Merge(rates, &v1.OptimizerSpec{LearningRate: own.LearningRate, Schedule: own.Schedule})
		}
		table.Optimizer.LearningRate, table.Optimizer.Schedule = rates.LearningRate, rates.Schedule
	}
	return spec
}

func defaultTraining() *v1.TrainingSpec {
	return &v1.TrainingSpec{Transform: proto.String("l2"), InputDropout: proto.Float64(0), HiddenDropout: proto.Float64(0),
		BatchSize: proto.Int64(256), InFlightSteps: proto.Int64(2), MaxEpochs: proto.Int64(10), ChunkSamples: proto.Int64(0),
		ValidationFraction: proto.Float64(0.05), ValidationMaxSamples: proto.Int64(2000), PatienceEpochs: proto.Int64(3),
		PropensityStrength: proto.Float64(0), OrderSeed: proto.Uint64(0)}
}

func defaultRates() *v1.OptimizerSpec {
	return &v1.OptimizerSpec{LearningRate: proto.Float64(0.001), Schedule: &v1.ScheduleSpec{Kind: proto.String("constant"),
		WarmupSteps: proto.Int64(0), DecaySteps: proto.Int64(0), FinalFraction: proto.Float64(0)}}
}

// FitSpec returns a copy for data of so many features and labels: with the rows of embedding and
// head, and with the settings of hashing that the rows decide, so that a kept model stays what it is.
// It is what C++ and Python trainers make of the same files.
func FitSpec(spec *v1.ModelSpec, features, labels int64) (*v1.ModelSpec, error) {
	fitted := proto.Clone(spec).(*v1.ModelSpec)
	for _, table := range fitted.Tables {
		rows := labels
		switch table.GetRole() {
		case "", "embedding":
			rows = features
			if table.GetBiasRow() {
				rows++
			}
		case "head":
		default:
			continue
		}
		if table.GetRows() != 0 && table.GetRows() != rows {
			return nil, invalid("table %q of the model has %d rows, but the data (%d features, %d labels) makes %d; "+
				"leave rows out to take it from the data", table.GetName(), table.GetRows(), features, labels, rows)
		}
		table.Rows = &rows
		if table.GetRole() == "head" {
			fitHead(table)
		}
	}
	return fitted, nil
}

func fitHead(table *v1.TableSpec) {
	if table.Head == nil {
		table.Head = &v1.HeadSpec{}
	}
	head, rows := table.Head, table.GetRows()
	if head.Hash == nil {
		head.Hash = &v1.HashSpec{}
	}
	resolved := hashing.Resolve(head.Hash, rows)
	head.Hash.CodesPerTable, head.Hash.NumTables = resolved.CodesPerTable, resolved.NumTables
	if head.Hash.GetRebuildEverySteps() == 0 {
		head.Hash.RebuildEverySteps = proto.Int64(50 * max(1, rows/1_000_000))
	}
	if head.GetRecallEverySteps() == 0 {
		head.RecallEverySteps = proto.Int64(20 * (1 + rows/100_000))
	}
}

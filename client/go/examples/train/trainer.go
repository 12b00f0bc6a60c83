package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"time"

	"dslide.dev/data"
	"dslide.dev/dslide"
	v1 "dslide.dev/gen/dslide/v1"
	"dslide.dev/order"
)

// bestCheckpoint is the checkpoint of a job's best epoch; trainers in all languages know it by this
// name, which has at most 64 letters.
func bestCheckpoint(job string) string {
	if name := "best-" + job; len(name) <= 64 {
		return name
	}
	hash := fnv.New32a()
	io.WriteString(hash, job)
	return fmt.Sprintf("best-%s-%08x", job[:50], hash.Sum32())
}

// A report is what one trainer has done.
type report struct {
	Model     string  `json:"model"`
	Job       string  `json:"job"`
	Steps     int64   `json:"steps"`
	Samples   int64   `json:"samples"`
	LastLoss  float64 `json:"last_loss"` // mean over the samples of this trainer's last chunk
	BestEpoch int64   `json:"best_epoch"`
	BestP1    float64 `json:"best_p_at_1"` // on the held-out points
	Seconds   float64 `json:"seconds"`
}

type trainer struct {
	model  *dslide.Model
	points *data.Set
	split  order.Split
	job    *v1.JobSpec
	steps  *dslide.Steps
	leases *dslide.Leases
	said   io.Writer
	report report
}

// train does its share of a job, until that has ended.
func train(ctx context.Context, model *dslide.Model, points *data.Set, job string, said io.Writer) (*report, error) {
	spec, start := model.Spec(), time.Now()
	training := spec.Training
	if training.GetTransform() == "tf_idf" || training.GetPropensityStrength() > 0 {
		return nil, fmt.Errorf("model %s has tf_idf or propensities, which this example does not know: train it with "+
			"dslide train", spec.GetName())
	}
	split, err := order.NewSplit(int64(len(points.Points)), spec.GetSeed(), training.GetValidationFraction(),
		training.GetValidationMaxSamples())
	if err != nil {
		return nil, err
	}
	t := &trainer{model: model, points: points, split: split, said: said}
	t.job = dslide.JobOf(job, spec, split.Training, split.Validation > 0, points.Fingerprint)
	if t.steps, err = model.OpenSteps(ctx, job); err != nil {
		return nil, err
	}
	defer t.steps.Close()
	if t.leases, err = t.steps.Join(ctx, t.job); err != nil {
		return nil, err
	}
	defer t.leases.Close()
	t.report.Model, t.report.Job = spec.GetName(), job
	for {
		work, err := t.leases.Next(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case work.GetChunk() != nil:
			err = t.chunk(ctx, work.GetChunk())
		case work.GetEvaluation() != nil:
			err = t.evaluate(ctx, work.GetEvaluation())
		case work.GetStage() != nil:
			err = t.complete(ctx, work.GetStage())
		default:
			t.report.BestEpoch, t.report.BestP1 = work.GetFinished().GetBestEpoch(), work.GetFinished().GetBestMetric()
			t.report.Seconds = time.Since(start).Seconds()
			if t.report.Steps == 0 {
				fmt.Fprintf(said, "NOTE: nothing was left to do of job %s; another run has another --job\n", job)
			}
			return &t.report, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// chunk trains the points at some positions of an epoch's order.
func (t *trainer) chunk(ctx context.Context, lease *v1.ChunkLease) error {
	epoch, training := order.NewEpoch(t.split.Training, t.job.Seed, lease.Epoch), t.model.Spec().Training
	size, dropout := training.GetBatchSize(), order.Dropout{Seed: t.job.Seed, Epoch: lease.Epoch,
		Input: training.GetInputDropout(), Hidden: training.GetHiddenDropout()}
	done := &v1.WorkReport{LeaseId: lease.LeaseId}
	for first := lease.First; first < lease.First+lease.Count; first += size {
		var features, labels dslide.Sparse
		var points []int64 // their places in the data
		for position := first; position < min(first+size, lease.First+lease.Count); position++ {
			// Points without labels teach nothing.
			place := t.split.TrainingPoint(epoch.PointAt(position))
			if point := t.points.Points[place]; len(point.Labels) > 0 {
				features.Append(point.Features, point.Values)
				labels.Append(point.Labels, nil)
				points = append(points, place)
			}
		}
		if labels.Len() == 0 {
			continue
		}
		t.transform(&features)
		loss, err := t.step(ctx, &batch{leftOut(&features, dropout, points), &labels, points, dropout,
			(lease.Epoch*t.split.Training+first)/size + 1})
		if err != nil {
			return err
		}
		t.report.Steps++
		done.LossSum += loss
		done.Samples += int64(labels.Len())
	}
	t.report.Samples += done.Samples
	if done.Samples > 0 {
		t.report.LastLoss = done.LossSum / float64(done.Samples)
	}
	t.leases.Finish(done)
	return nil
}

// A batch is the points of one step; number: of the step in its job, from 1.
type batch struct {
	features, labels *dslide.Sparse
	points           []int64
	dropout          order.Dropout
	number           int64
}

func leftOut(features *dslide.Sparse, dropout order.Dropout, points []int64) *dslide.Sparse {
	kept := &dslide.Sparse{}
	for i, point := range points {
		from, to := features.Offsets[i], features.Offsets[i+1]
		kept.Append(dropout.Features(point, features.IDs[from:to], features.Values[from:to]))
	}
	return kept
}

// rate is the learning rate of a table at the batch's step.
func (b *batch) rate(table *v1.TableSpec) float64 {
	return dslide.LearningRate(table.Optimizer, b.number)
}

// drop leaves units of a layer out.
func (b *batch) drop(layer int, hidden []float32) {
	width := len(hidden) / len(b.points)
	for i, point := range b.points {
		b.dropout.Units(layer, point, hidden[i*width:(i+1)*width])
	}
}

// mask makes the gradient of a layer's output that of its sum, in place.
func (b *batch) mask(activated, gradient []float32) {
	for i, h := range activated {
		if h == 0 {
			gradient[i] = 0
		} else {
			gradient[i] *= b.dropout.Scale()
		}
	}
}

// step is one training step: the network is hidden = max(sum of feature rows, 0), then hidden =
// max(W hidden + b, 0) for each dense layer, each with its dropout, and logits = head hidden.
func (t *trainer) step(ctx context.Context, b *batch) (float64, error) {
	tables := t.model.Spec().Tables
	t.steps.Begin()
	hidden, err := t.steps.EmbedForward(ctx, b.features)
	if err != nil {
		return 0, err
	}
	layers, err := t.steps.DenseGather(ctx)
	if err != nil {
		return 0, err
	}
	var inputs [][]float32 // of each layer
	for i, layer := range layers {
		dslide.Rectify(hidden)
		b.drop(i, hidden)
		inputs = append(inputs, hidden)
		hidden = layer.Forward(hidden)
	}
	dslide.Rectify(hidden)
	b.drop(len(layers), hidden)
	t.model.Activate(hidden)
	result, err := t.steps.HeadForward(ctx, hidden, b.labels)
	if err != nil {
		return 0, err
	}
	gradient, err := t.steps.HeadBackward(ctx, result, b.rate(tables[len(tables)-1]))
	if err != nil {
		return 0, err
	}
	b.mask(hidden, gradient)
	for i := len(layers) - 1; i >= 0; i-- {
		ofRows, below := layers[i].Backward(inputs[i], gradient)
		if err := t.steps.DenseScatter(ctx, layers[i], ofRows, b.rate(tables[i+1])); err != nil {
			return 0, err
		}
		b.mask(inputs[i], below)
		gradient = below
	}
	return result.LossSum, t.steps.EmbedBackward(ctx, gradient, b.rate(tables[0]))
}

func (t *trainer) transform(features *dslide.Sparse) {
	if t.model.Spec().Training.GetTransform() == "l2" {
		features.Scale()
	}
}

// evaluate measures P@1 on the held-out points, and keeps the rows when they are the best so far.
func (t *trainer) evaluate(ctx context.Context, lease *v1.EvaluationLease) error {
	hits, labelled := 0, 0
	for first := int64(0); first < t.split.Validation; first += 256 {
		var features dslide.Sparse
		var labels [][]uint32
		for number := first; number < min(first+256, t.split.Validation); number++ {
			if point := t.points.Points[t.split.ValidationPoint(number)]; len(point.Labels) > 0 {
				features.Append(point.Features, point.Values)
				labels = append(labels, point.Labels)
			}
		}
		if len(labels) == 0 {
			continue
		}
		predicted, err := t.predict(ctx, &features)
		if err != nil {
			return err
		}
		labelled += len(labels)
		for i, own := range labels {
			for _, label := range own {
				if label == predicted[i] {
					hits++
				}
			}
		}
	}
	precision := float64(hits) / float64(max(labelled, 1))
	fmt.Fprintf(t.said, "epoch %d: P@1 %.4f on %d held-out points\n", lease.Epoch+1, precision, labelled)
	if precision > lease.MetricToBeat {
		if _, err := t.model.SaveCheckpoint(ctx, bestCheckpoint(t.job.GetJob())); errors.Is(err, dslide.ErrFailedPrecondition) {
			fmt.Fprintf(t.said, "NOTE: the best epoch cannot be kept: %v\n", err)
		} else if err != nil {
			return err
		}
	}
	t.leases.Finish(&v1.WorkReport{LeaseId: lease.LeaseId, Metric: precision})
	return nil
}

func (t *trainer) head() string {
	tables := t.model.Spec().Tables
	return tables[len(tables)-1].GetName()
}

func (t *trainer) predict(ctx context.Context, features *dslide.Sparse) ([]uint32, error) {
	t.transform(features)
	hidden, err := t.model.Hidden(ctx, features)
	if err != nil {
		return nil, err
	}
	top, err := t.model.TopK(ctx, t.head(), hidden, 1, dslide.Exact)
	if err != nil {
		return nil, err
	}
	return top.IDs, nil
}

// complete restores the rows of the best epoch; the other trainers wait for that.
func (t *trainer) complete(ctx context.Context, lease *v1.StageLease) error {
	done := &v1.WorkReport{LeaseId: lease.LeaseId}
	if lease.Stage == v1.JobStage_JOB_STAGE_COMPLETION && lease.BestEpoch >= 0 {
		_, err := t.model.RestoreCheckpoint(ctx, bestCheckpoint(t.job.GetJob()))
		done.BestRestored = err == nil
		if errors.Is(err, dslide.ErrNotFound) || errors.Is(err, dslide.ErrFailedPrecondition) {
			fmt.Fprintf(t.said, "NOTE: the best epoch was not kept: %v\n", err)
		} else if err != nil {
			return err
		}
	}
	t.leases.Finish(done)
	return nil
}

package dslide

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc/codes"

	"dslide.dev/arrays"
	v1 "dslide.dev/gen/dslide/v1"
)

// Steps are the training steps of one client, one after the other, on all shards. A program that
// wants several steps in flight opens several, each in a goroutine of its own.
//
// A step is Begin, EmbedForward, DenseGather where the model has dense layers, what the program
// computes, HeadForward, HeadBackward, what the program computes, DenseScatter of each layer, and
// EmbedBackward. The shards keep its contexts between them.
type Steps struct {
	model    *Model
	job      string
	clientID []byte
	streams  []*stepStream // by ordinal
	step     int64
}

// OpenSteps opens a client that trains the model for a job, [a-z0-9-]{1,64}. Close it, so that the
// shards may forget it. A shard that is restarted is greeted anew, and what has no answer is sent
// again. ErrDataLoss, LOST_UPDATES: it came back without updates that it had confirmed.
func (m *Model) OpenSteps(ctx context.Context, job string) (*Steps, error) {
	if !namePattern.MatchString(job) {
		return nil, invalid("job %q is no name: use 1 to 64 of a-z, 0-9 and -", job)
	}
	s := &Steps{model: m, job: job, clientID: newClientID()}
	for _, shard := range m.cluster.shards {
		stream := &stepStream{shard: shard, steps: s}
		stream.sequence.next = 1
		s.streams = append(s.streams, stream)
	}
	err := m.cluster.eachShard(func(shard *shard) error {
		stream := s.streams[shard.ordinal]
		if err := stream.hello(ctx); err != nil {
			return err
		}
		return stream.connect()
	})
	if err != nil {
		s.Close() // a shard keeps what it has for each client until that is closed
		return nil, err
	}
	return s, nil
}

// Close ends the streams and closes the client at the shards. A shard that is gone has nothing to
// forget.
func (s *Steps) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.model.cluster.eachShard(func(shard *shard) error {
		s.streams[shard.ordinal].close(ctx)
		return nil
	})
}

// Begin begins the next step. The contexts of the one before go.
func (s *Steps) Begin() { s.step++ }

// each does one operation on all shards beside each other, but for those that get none.
func (s *Steps) each(
	ctx context.Context, operation func(*stepStream) *v1.StepRequest, take func(int, *v1.StepResponse) error,
) error {
	if s.step == 0 {
		return newError(codes.FailedPrecondition, "no step was begun: call Begin")
	}
	return s.model.cluster.eachShard(func(shard *shard) error {
		stream := s.streams[shard.ordinal]
		request := operation(stream)
		if request == nil {
			return nil
		}
		request.Step, request.FirstOpenStep = s.step, s.step
		response, err := stream.run(ctx, request)
		if err != nil {
			return err
		}
		return take(shard.ordinal, response)
	})
}

func (s *Steps) tables() (embedding, head *v1.TableSpec, err error) {
	tables := s.model.spec.Tables
	if len(tables) < 2 || tables[0].GetRole() != "embedding" || tables[len(tables)-1].GetRole() != "head" {
		return nil, nil, invalid("model %q cannot be trained by steps: its first table must be an embedding and its "+
			"last one a head", s.model.spec.GetName())
	}
	return tables[0], tables[len(tables)-1], nil
}

// EmbedForward returns the sums of the samples' feature rows, [B, dim], without any activation. The
// bias row is added here.
func (s *Steps) EmbedForward(ctx context.Context, features *Sparse) ([]float32, error) {
	table, _, err := s.tables()
	if err != nil {
		return nil, err
	}
	parts, err := s.model.sliceFeatures(table, features)
	if err != nil {
		return nil, err
	}
	sums := make([]*v1.Matrix, len(parts))
	err = s.each(ctx, func(stream *stepStream) *v1.StepRequest {
		return &v1.StepRequest{Operation: embedForward(table, &parts[stream.shard.ordinal], false, stream.packed)}
	}, func(ordinal int, response *v1.StepResponse) error {
		sums[ordinal] = response.GetEmbedForward().GetPartial()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.model.addParts(sums, features.Len(), int(table.GetDim()))
}

// A HeadResult is what the head says of a batch.
type HeadResult struct {
	// The sum of the samples' losses.
	LossSum float64
	// Pairs of a row and a sample that were computed.
	ActivePairs int64

	batch         int
	logPartitions []float32
}

// HeadForward computes the loss of hidden vectors, [B, dim], against the samples' labels: of each
// sample those rows are active that are its labels, or that hashing finds.
func (s *Steps) HeadForward(ctx context.Context, hidden []float32, labels *Sparse) (*HeadResult, error) {
	_, table, err := s.tables()
	if err != nil {
		return nil, err
	}
	batch, err := checkVectors(table, hidden)
	if err != nil {
		return nil, err
	}
	if err := labels.check(table, table.GetRows(), "labels"); err != nil {
		return nil, err
	}
	if labels.Len() != batch {
		return nil, invalid("labels of %d samples are given for %d hidden vectors", labels.Len(), batch)
	}
	family, err := s.model.hashFamily(table)
	if err != nil {
		return nil, err
	}
	var fingerprints []byte
	if family != nil {
		fingerprints = arrays.IDs(family.Hash(hidden))
	}
	softmax := table.Head.GetLoss() != "sigmoid"
	targets := targetsOf(labels, softmax)
	slices := labels.slice(s.model.cluster.ownersOf(table), len(s.streams), -1)
	parts, result := make([]headPart, len(s.streams)), &HeadResult{batch: batch}
	active := make([]int64, len(s.streams))
	shown, weights := s.model.matrix(hidden, batch), arrays.Floats(targets)
	err = s.each(ctx, func(stream *stepStream) *v1.StepRequest {
		request := &v1.HeadForward{Table: table.GetName(), Hidden: shown, Fingerprints: fingerprints, LabelTargets: weights}
		mine := &slices[stream.shard.ordinal]
		if stream.packed {
			request.PackedLabelIds = mine.packed()
		} else {
			request.LabelOffsets, request.LabelIds = mine.offsets(), arrays.IDs(mine.IDs)
		}
		return &v1.StepRequest{Operation: &v1.StepRequest_HeadForward{HeadForward: request}}
	}, func(ordinal int, response *v1.StepResponse) error {
		answer, mine := response.GetHeadForward(), &slices[ordinal]
		parts[ordinal] = headPart{arrays.ToFloats(answer.GetMaxLogits()), arrays.ToFloats(answer.GetExpSums()),
			arrays.ToFloats(answer.GetLabelLogits()), mine}
		active[ordinal] = answer.GetActivePairs()
		if len(parts[ordinal].maxLogits) != batch || len(parts[ordinal].expSums) != batch ||
			len(parts[ordinal].labelLogits) != len(mine.IDs) {
			return newError(codes.Internal, "%s answered a head of other sizes than were asked", s.streams[ordinal].shard.name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, pairs := range active {
		result.ActivePairs += pairs
	}
	result.LossSum, result.logPartitions = combineLoss(softmax, parts, targets)
	if math.IsNaN(result.LossSum) || math.IsInf(result.LossSum, 0) {
		return nil, invalid("the loss of a batch is not finite: training has diverged; lower the learning rate")
	}
	return result, nil
}

// targetsOf returns the target of each of a sample's labels.
func targetsOf(labels *Sparse, softmax bool) []float32 {
	targets := make([]float32, labels.Len())
	for i := range targets {
		if n := labels.Offsets[i+1] - labels.Offsets[i]; softmax && n > 0 {
			targets[i] = 1 / float32(n)
		} else if n > 0 {
			targets[i] = 1
		}
	}
	return targets
}

// HeadBackward updates the active rows once each, at a learning rate, and returns the gradient of the
// mean loss with respect to the hidden vectors, [B, dim].
func (s *Steps) HeadBackward(ctx context.Context, forward *HeadResult, rate float64) ([]float32, error) {
	_, table, err := s.tables()
	if err != nil {
		return nil, err
	}
	gradients := make([]*v1.Matrix, len(s.streams))
	err = s.each(ctx, func(*stepStream) *v1.StepRequest {
		return &v1.StepRequest{Operation: &v1.StepRequest_HeadBackward{HeadBackward: &v1.HeadBackward{
			Table: table.GetName(), Scale: 1 / float32(forward.batch),
			LogPartitions: arrays.Floats(forward.logPartitions), LearningRate: &rate}}}
	}, func(ordinal int, response *v1.StepResponse) error {
		gradients[ordinal] = response.GetHeadBackward().GetHiddenGradient()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.model.addParts(gradients, forward.batch, int(table.GetDim()))
}

// EmbedBackward updates the rows of the step's features once each, at a learning rate, with the
// gradient of their sums, [B, dim].
func (s *Steps) EmbedBackward(ctx context.Context, gradient []float32, rate float64) error {
	table, _, err := s.tables()
	if err != nil {
		return err
	}
	batch, err := checkVectors(table, gradient)
	if err != nil {
		return err
	}
	shown := s.model.matrix(gradient, batch)
	return s.each(ctx, func(*stepStream) *v1.StepRequest {
		return &v1.StepRequest{Operation: &v1.StepRequest_EmbedBackward{EmbedBackward: &v1.EmbedBackward{
			Table: table.GetName(), Gradient: shown, LearningRate: &rate}}}
	}, func(int, *v1.StepResponse) error { return nil })
}

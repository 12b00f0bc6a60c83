package dslide

import (
	"context"
	"math"

	"google.golang.org/grpc/codes"

	"dslide.dev/arrays"
	v1 "dslide.dev/gen/dslide/v1"
)

// Scale makes features as a model's transform "l2" has them, in place: each sample of length 1.
func (s *Sparse) Scale() {
	for i := range s.Len() {
		values, squares := s.Values[s.Offsets[i]:s.Offsets[i+1]], 0.0
		for _, value := range values {
			squares += float64(float64(value) * float64(value))
		}
		if squares == 0 {
			continue
		}
		scale := 1 / math.Sqrt(squares)
		for j, value := range values {
			values[j] = float32(float64(value) * scale)
		}
	}
}

// Hidden returns the hidden vectors, [samples, dim], of features as the model sees them, after its
// transform: what TopK of the head takes. The bias row is added here. It reads averaged rows where
// a table keeps them.
//
// ErrUnimplemented: the model is no network; ask dslide serve.
func (m *Model) Hidden(ctx context.Context, features *Sparse) ([]float32, error) {
	embedding, dense, _, err := m.network()
	if err != nil {
		return nil, err
	}
	parts, err := m.sliceFeatures(embedding, features)
	if err != nil {
		return nil, err
	}
	sums := make([]*v1.Matrix, len(parts))
	err = m.cluster.eachShard(func(s *shard) error {
		result, err := m.read(ctx, s, &v1.StepRequest{Operation: embedForward(embedding, &parts[s.ordinal],
			averages(embedding), false)})
		sums[s.ordinal] = result.GetEmbedForward().GetPartial()
		return err
	})
	if err != nil {
		return nil, err
	}
	hidden, err := m.addParts(sums, features.Len(), int(embedding.GetDim()))
	if err != nil {
		return nil, err
	}
	for _, table := range dense {
		blocks := make([]*v1.RowBlock, len(m.cluster.shards))
		err := m.cluster.eachShard(func(s *shard) error {
			result, err := m.read(ctx, s, &v1.StepRequest{Operation: &v1.StepRequest_DenseGather{
				DenseGather: &v1.DenseGather{Table: table.GetName(), Averaged: averages(table)}}})
			blocks[s.ordinal] = result.GetDenseGather().GetRows()
			return err
		})
		if err != nil {
			return nil, err
		}
		layer, err := m.joinDense(table, blocks)
		if err != nil {
			return nil, err
		}
		Rectify(hidden)
		hidden = layer.Forward(hidden)
	}
	m.Activate(hidden)
	return hidden, nil
}

// read does an operation that changes nothing, outside of any step.
func (m *Model) read(ctx context.Context, s *shard, operation *v1.StepRequest) (*v1.StepResponse, error) {
	answer, err := call(ctx, s.peer, "Read", s.client.Read, &v1.ReadRequest{Model: m.spec.GetName(),
		TopologyVersion: m.cluster.topology, Operation: operation})
	return answer.GetResult(), err
}

func averages(table *v1.TableSpec) bool { return table.GetOptimizer().GetAverageDecay() > 0 }

// Rectify makes sums the input of a dense layer, in place: max(x, 0).
func Rectify(sums []float32) {
	for i, x := range sums {
		sums[i] = max(x, 0)
	}
}

// Activate makes sums of feature rows, or those of the last dense layer, the input of the head, in
// place: max(x, 0), rounded where the model's activations are bf16.
func (m *Model) Activate(sums []float32) {
	Rectify(sums)
	if m.halves() {
		arrays.RoundToBF16(sums)
	}
}

func (m *Model) halves() bool { return m.spec.GetActivations() == "bf16" }

// sliceFeatures returns each shard's part of the features, with the bias row.
func (m *Model) sliceFeatures(table *v1.TableSpec, features *Sparse) ([]Sparse, error) {
	rows, extra := table.GetRows(), int64(-1)
	if table.GetBiasRow() {
		rows, extra = rows-1, rows-1
	}
	if err := features.check(table, rows, "features"); err != nil {
		return nil, err
	}
	return features.slice(m.cluster.ownersOf(table), len(m.cluster.shards), extra), nil
}

func embedForward(table *v1.TableSpec, part *Sparse, averaged, packed bool) *v1.StepRequest_EmbedForward {
	request := &v1.EmbedForward{Table: table.GetName(), Batch: uint32(part.Len()), Averaged: averaged,
		Values: arrays.Floats(part.Values)}
	if packed {
		request.PackedRowIds = part.packed()
	} else {
		request.SampleOffsets, request.RowIds = part.offsets(), arrays.IDs(part.IDs)
	}
	return &v1.StepRequest_EmbedForward{EmbedForward: request}
}

// addParts adds the shards' parts up in f32, in shard order, so that every client gets the same bits.
func (m *Model) addParts(parts []*v1.Matrix, rows, cols int) ([]float32, error) {
	sum := make([]float32, rows*cols)
	for ordinal, part := range parts {
		numbers, err := fromMatrix(part, rows, cols)
		if err != nil {
			return nil, newError(codes.Internal, "%s: %v", m.cluster.shards[ordinal].name, err)
		}
		for i, x := range numbers {
			sum[i] += x
		}
	}
	return sum, nil
}

func fromMatrix(m *v1.Matrix, rows, cols int) ([]float32, error) {
	width := 4
	if m.GetElementType() == v1.ElementType_ELEMENT_TYPE_BF16 {
		width = 2
	}
	if int(m.GetRows()) != rows || int(m.GetCols()) != cols || len(m.GetData()) != width*rows*cols {
		return nil, newError(codes.Internal, "it answered %d bytes of [%d, %d], expected [%d, %d]",
			len(m.GetData()), m.GetRows(), m.GetCols(), rows, cols)
	}
	if width == 4 {
		return arrays.ToFloats(m.Data), nil
	}
	numbers := make([]float32, rows*cols)
	for i := range numbers {
		numbers[i] = arrays.FromBF16(uint16(m.Data[2*i]) | uint16(m.Data[2*i+1])<<8)
	}
	return numbers, nil
}

func (m *Model) matrix(x []float32, rows int) *v1.Matrix {
	matrix := &v1.Matrix{Rows: uint32(rows), Cols: uint32(len(x) / rows)}
	if m.halves() {
		matrix.ElementType, matrix.Data = v1.ElementType_ELEMENT_TYPE_BF16, arrays.BF16(x)
	} else {
		matrix.ElementType, matrix.Data = v1.ElementType_ELEMENT_TYPE_F32, arrays.Floats(x)
	}
	return matrix
}

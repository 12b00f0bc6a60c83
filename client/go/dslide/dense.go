package dslide

import (
	"context"

	"google.golang.org/grpc/codes"

	"dslide.dev/arrays"
	v1 "dslide.dev/gen/dslide/v1"
)

// A DenseLayer is a small layer between the embedding and the head, as the shards have answered its
// rows. It computes W x + b; what is made of that is the program's business.
type DenseLayer struct {
	In, Out int
	Weights []float32 // [Out, In]
	Biases  []float32 // [Out]

	table *v1.TableSpec
	rows  [][]uint32 // by shard: who holds which
}

// DenseGradients are those of all rows of a layer.
type DenseGradients struct {
	Weights []float32 // [Out, In]
	Biases  []float32 // [Out]
}

// Forward returns W x + b, [B, Out], of inputs [B, In].
func (l *DenseLayer) Forward(x []float32) []float32 {
	y := make([]float32, 0, len(x)/l.In*l.Out)
	for ; len(x) >= l.In; x = x[l.In:] {
		for unit, sum := range l.Biases {
			for i, weight := range l.Weights[unit*l.In : (unit+1)*l.In] {
				sum += weight * x[i]
			}
			y = append(y, sum)
		}
	}
	return y
}

// Backward returns the gradients of the rows, summed over the samples, and those of the inputs,
// [B, In], for inputs [B, In] and the gradients of Forward's result, [B, Out].
func (l *DenseLayer) Backward(x, dy []float32) (*DenseGradients, []float32) {
	all := &DenseGradients{make([]float32, l.Out*l.In), make([]float32, l.Out)}
	dx := make([]float32, len(x))
	for sample := range len(dy) / l.Out {
		in, below := x[sample*l.In:(sample+1)*l.In], dx[sample*l.In:(sample+1)*l.In]
		for unit, g := range dy[sample*l.Out : (sample+1)*l.Out] {
			if g == 0 {
				continue
			}
			weights, row := l.Weights[unit*l.In:(unit+1)*l.In], all.Weights[unit*l.In:(unit+1)*l.In]
			for i := range in {
				row[i] += g * in[i]
				below[i] += g * weights[i]
			}
			all.Biases[unit] += g
		}
	}
	return all, dx
}

// joinDense puts the shards' parts of a layer together.
func (m *Model) joinDense(table *v1.TableSpec, parts []*v1.RowBlock) (*DenseLayer, error) {
	in, out := int(table.GetDim()), int(table.GetRows())
	layer := &DenseLayer{In: in, Out: out, Weights: make([]float32, out*in), Biases: make([]float32, out), table: table}
	seen := make([]bool, out)
	for ordinal, part := range parts {
		name := m.cluster.shards[ordinal].name
		rows, biases := arrays.ToIDs(part.GetRowIds()), arrays.ToFloats(part.GetBiases())
		if len(biases) != len(rows) {
			return nil, newError(codes.Internal, "%s answered %d biases of %d rows of table %q", name, len(biases), len(rows),
				table.GetName())
		}
		layer.rows = append(layer.rows, rows)
		if len(rows) == 0 {
			continue
		}
		weights, err := fromMatrix(part.GetValues(), len(rows), in)
		if err != nil {
			return nil, newError(codes.Internal, "%s, table %q: %v", name, table.GetName(), err)
		}
		for i, row := range rows {
			if int(row) >= out || seen[row] {
				return nil, newError(codes.Internal, "%s answered row %d of table %q, which has %d, each once", name, row,
					table.GetName(), out)
			}
			seen[row] = true
			copy(layer.Weights[int(row)*in:], weights[i*in:(i+1)*in])
			layer.Biases[row] = biases[i]
		}
	}
	for row, there := range seen {
		if !there {
			return nil, newError(codes.Internal, "no shard answered row %d of table %q", row, table.GetName())
		}
	}
	return layer, nil
}

// network returns the tables of a model in the order of the forward pass.
func (m *Model) network() (embedding *v1.TableSpec, dense []*v1.TableSpec, head *v1.TableSpec, err error) {
	tables := m.spec.Tables
	last := len(tables) - 1
	fits := last >= 1 && tables[0].GetRole() == "embedding" && tables[last].GetRole() == "head"
	for i := 1; fits && i < last; i++ {
		fits = tables[i].GetRole() == "dense"
	}
	if !fits {
		return nil, nil, nil, newError(codes.Unimplemented, "model %q is no network of an embedding, dense layers and a "+
			"head alone; ask dslide serve for its predictions", m.spec.GetName())
	}
	return tables[0], tables[1:last], tables[last], nil
}

// DenseGather returns the dense layers of the model, in their order, as they are now.
func (s *Steps) DenseGather(ctx context.Context) ([]*DenseLayer, error) {
	_, tables, _, err := s.model.network()
	if err != nil {
		return nil, err
	}
	var layers []*DenseLayer
	for _, table := range tables {
		parts := make([]*v1.RowBlock, len(s.streams))
		err := s.each(ctx, func(*stepStream) *v1.StepRequest {
			return &v1.StepRequest{Operation: &v1.StepRequest_DenseGather{DenseGather: &v1.DenseGather{Table: table.GetName()}}}
		}, func(ordinal int, response *v1.StepResponse) error {
			parts[ordinal] = response.GetDenseGather().GetRows()
			return nil
		})
		if err != nil {
			return nil, err
		}
		layer, err := s.model.joinDense(table, parts)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	return layers, nil
}

// DenseScatter updates all rows of a layer once each, at a learning rate.
func (s *Steps) DenseScatter(ctx context.Context, layer *DenseLayer, all *DenseGradients, rate float64) error {
	return s.each(ctx, func(stream *stepStream) *v1.StepRequest {
		rows := layer.rows[stream.shard.ordinal]
		if len(rows) == 0 {
			return nil
		}
		var weights, biases []float32
		for _, row := range rows {
			weights = append(weights, all.Weights[int(row)*layer.In:(int(row)+1)*layer.In]...)
			biases = append(biases, all.Biases[row])
		}
		return &v1.StepRequest{Operation: &v1.StepRequest_DenseScatter{DenseScatter: &v1.DenseScatter{
			Table: layer.table.GetName(), LearningRate: &rate, Gradients: &v1.RowBlock{RowIds: arrays.IDs(rows),
				Biases: arrays.Floats(biases), Values: &v1.Matrix{Rows: uint32(len(rows)), Cols: uint32(layer.In),
					ElementType: v1.ElementType_ELEMENT_TYPE_F32, Data: arrays.Floats(weights)}}}}}
	}, func(int, *v1.StepResponse) error { return nil })
}

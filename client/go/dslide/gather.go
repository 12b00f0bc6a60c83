package dslide

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"

	"dslide.dev/arrays"
	v1 "dslide.dev/gen/dslide/v1"
)

// A gather of more ids is asked for in parts.
const idsPerGather = 1 << 18

// Rows are rows of a table with their biases.
type Rows struct {
	Values []float32 // [n, dim]
	Biases []float32 // [n], of heads and dense tables; else nil
}

// GatherOptions say how rows are read. nil: into new memory, as they are trained.
type GatherOptions struct {
	// Memory of an earlier gather, taken where it is large enough: it need not be made ready again.
	Into *Rows
	// As predictions read them, where the table keeps averages (optimizer.average_decay).
	Averaged bool
}

// Gather reads rows of a table by id, in the order asked for; ids may repeat. Rows of different
// shards are not of one instant.
func (m *Model) Gather(ctx context.Context, table string, ids []uint32, options *GatherOptions) (*Rows, error) {
	spec, owners, err := m.table(table)
	if err != nil {
		return nil, err
	}
	if options == nil {
		options = &GatherOptions{}
	}
	if err := checkIDs(ids, spec.GetRows(), "gather of table "+table); err != nil {
		return nil, err
	}
	dim, unique, inverse := int(spec.GetDim()), ids, []int(nil)
	if !ascends(ids) {
		unique, inverse = distinct(ids)
	}
	rows := options.Into
	if rows == nil || inverse != nil {
		rows = &Rows{}
	}
	rows.Values = resized(rows.Values, len(unique)*dim)
	if spec.GetRole() == "embedding" {
		rows.Biases = nil
	} else {
		rows.Biases = resized(rows.Biases, len(unique))
	}
	parts := deal(unique, owners, len(m.cluster.shards))
	err = m.cluster.eachShard(func(s *shard) error {
		part := parts[s.ordinal]
		for first := 0; first < len(part.ids); first += idsPerGather {
			g := gathering{part: part.cut(first, min(first+idsPerGather, len(part.ids))), dim: dim, rows: rows}
			request := &v1.GatherRequest{Model: m.spec.GetName(), Table: table, TopologyVersion: m.cluster.topology,
				Averaged: options.Averaged, Selection: &v1.GatherRequest_Rows{
					Rows: &v1.RowSelection{RowIds: arrays.IDs(g.part.ids)}}}
			if err := g.run(ctx, s, request); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || inverse == nil {
		return rows, err
	}
	return rows.take(inverse, dim, options.Into), nil
}

// take returns the rows at some places.
func (r *Rows) take(places []int, dim int, into *Rows) *Rows {
	if into == nil {
		into = &Rows{}
	}
	into.Values = resized(into.Values, len(places)*dim)
	for i, place := range places {
		copy(into.Values[i*dim:(i+1)*dim], r.Values[place*dim:])
	}
	if r.Biases == nil {
		into.Biases = nil
		return into
	}
	into.Biases = resized(into.Biases, len(places))
	for i, place := range places {
		into.Biases[i] = r.Biases[place]
	}
	return into
}

func resized(x []float32, size int) []float32 {
	if cap(x) < size {
		return make([]float32, size)
	}
	return x[:size]
}

// A gathering takes the rows of one request from one shard.
type gathering struct {
	part part
	dim  int
	rows *Rows
	done int
	ids  []uint32 // of a message
}

func (g *gathering) run(ctx context.Context, s *shard, request *v1.GatherRequest) error {
	return s.repeat(ctx, s.options.Timeout, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx) // frees a stream that is not read to its end
		defer cancel()
		ctx, id := s.withMetadata(ctx)
		g.done = 0
		err := g.attempt(ctx, s, request)
		if err != nil {
			return callError(ctx, s.peer, "Gather", id, err)
		}
		if g.done != len(g.part.ids) {
			return newError(codes.Internal, "%s answered %d of %d rows", s.name, g.done, len(g.part.ids))
		}
		return nil
	})
}

var gatherStream = grpc.StreamDesc{StreamName: "Gather", ServerStreams: true}

func (g *gathering) attempt(ctx context.Context, s *shard, request *v1.GatherRequest) error {
	stream, err := s.conn.NewStream(ctx, &gatherStream, v1.ShardService_Gather_FullMethodName,
		grpc.ForceCodecV2(bulkCodec{}))
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil && err != io.EOF {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		if err := stream.RecvMsg(g); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// receive puts the rows of a message at their places.
func (g *gathering) receive(data mem.BufferSlice) error {
	block, err := findRows(data)
	if err == nil {
		err = block.check(g.dim, g.rows.Biases != nil)
	}
	if err != nil {
		return err
	}
	n := int(block.rows)
	if cap(g.ids) < n {
		g.ids = make([]uint32, n)
	}
	g.ids = g.ids[:n]
	err = readAt(data, block.ids.at, func(read func([]byte) error) error { return read(bytesOf(g.ids)) })
	if err != nil {
		return err
	}
	if g.done+n > len(g.part.ids) || !slices.Equal(g.ids, g.part.ids[g.done:g.done+n]) {
		return errors.New("they are rows that were not asked for")
	}
	if err := g.place(data, block.values.at, n, g.dim, g.rows.Values); err != nil {
		return err
	}
	if g.rows.Biases != nil {
		if err := g.place(data, block.biases.at, n, 1, g.rows.Biases); err != nil {
			return err
		}
	}
	g.done += n
	return nil
}

// place reads n runs of numbers, each of a row, into an array of all rows.
func (g *gathering) place(data mem.BufferSlice, at, n, width int, into []float32) error {
	return readAt(data, at, func(read func([]byte) error) error {
		if g.part.places == nil {
			first := g.part.first + g.done
			return read(bytesOf(into[first*width : (first+n)*width]))
		}
		for _, place := range g.part.places[g.done : g.done+n] {
			if err := read(bytesOf(into[place*width : (place+1)*width])); err != nil {
				return err
			}
		}
		return nil
	})
}

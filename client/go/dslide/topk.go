package dslide

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"

	"google.golang.org/grpc/codes"

	"dslide.dev/arrays"
	v1 "dslide.dev/gen/dslide/v1"
)

// A TopKMode says which rows of a head are scored.
type TopKMode int

const (
	// Exact scores every row.
	Exact TopKMode = TopKMode(v1.TopKMode_TOP_K_MODE_EXACT)
	// Hashed scores the rows that hashing finds, as many as in training. A head without hash tables is
	// scored exactly.
	Hashed TopKMode = TopKMode(v1.TopKMode_TOP_K_MODE_HASHED)
)

const maxBudget = 1 << 31

// NoRow is the id where fewer than k rows were scored.
const NoRow = math.MaxUint32

// TopK are the best rows of each query over all shards: [queries, k], best first, ties by smaller
// id; fewer than k: NoRow and -Inf.
type TopK struct {
	IDs    []uint32
	Logits []float32
	// How many rows were scored for each query.
	ScoredRows []int64
}

// TopK returns the k best rows, [1, 1024], of a head for hidden vectors, [queries, dim].
func (m *Model) TopK(ctx context.Context, table string, hidden []float32, k int, mode TopKMode) (*TopK, error) {
	return m.topK(ctx, table, hidden, k, mode, 0)
}

// TopKWithin is a Hashed TopK that scores so many rows for each query, [1, 2^31], over all shards: the
// more, the more of the exact answer is found.
func (m *Model) TopKWithin(ctx context.Context, table string, hidden []float32, k int, budget int64) (*TopK, error) {
	if budget < 1 || budget > maxBudget {
		return nil, invalid("budget is %d, must be in [1, %d]", budget, int64(maxBudget))
	}
	return m.topK(ctx, table, hidden, k, Hashed, uint32(budget))
}

func (m *Model) topK(
	ctx context.Context, table string, hidden []float32, k int, mode TopKMode, budget uint32,
) (*TopK, error) {
	spec, _, err := m.table(table)
	if err != nil {
		return nil, err
	}
	queries, err := checkVectors(spec, hidden)
	if err != nil {
		return nil, err
	}
	request := &v1.TopKRequest{Model: m.spec.GetName(), Table: table, K: uint32(k), Mode: v1.TopKMode(mode),
		Hidden: &v1.Matrix{Rows: uint32(queries), Cols: uint32(spec.GetDim()),
			ElementType: v1.ElementType_ELEMENT_TYPE_F32, Data: arrays.Floats(hidden)}}
	switch {
	case k < 1 || k > 1024:
		return nil, invalid("k is %d, must be in [1, 1024]", k)
	case mode == Hashed:
		family, err := m.hashFamily(spec)
		if err != nil {
			return nil, err
		}
		if family == nil {
			request.Mode = v1.TopKMode_TOP_K_MODE_EXACT
		} else {
			request.Fingerprints, request.Budget = arrays.IDs(family.Hash(hidden)), budget
		}
	case mode != Exact:
		return nil, invalid("mode %d must be Exact or Hashed", mode)
	}
	answers := make([]*v1.TopKResponse, len(m.cluster.shards))
	err = m.cluster.eachShard(func(s *shard) (err error) {
		if answers[s.ordinal], err = call(ctx, s.peer, "TopK", s.client.TopK, request); err != nil {
			return err
		}
		if ids, logits := len(answers[s.ordinal].RowIds), len(answers[s.ordinal].Logits); ids != 4*queries*k || logits != ids {
			return newError(codes.Internal, "%s answered %d bytes of ids and %d of logits for %d queries of %d",
				s.name, ids, logits, queries, k)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return bestOf(answers, queries, k), nil
}

// checkVectors returns how many vectors of a table's dim there are.
func checkVectors(table *v1.TableSpec, hidden []float32) (int, error) {
	dim := int(table.GetDim())
	if len(hidden) == 0 || len(hidden)%dim != 0 || len(hidden)/dim > 1<<16 {
		return 0, invalid("%d numbers are no vectors of table %q: they must be 1 to 65,536 times %d",
			len(hidden), table.GetName(), dim)
	}
	return len(hidden) / dim, checkFinite(hidden, "vectors of table "+table.GetName())
}

func bestOf(answers []*v1.TopKResponse, queries, k int) *TopK {
	type scored struct {
		id    uint32
		logit float32
	}
	best := &TopK{make([]uint32, 0, queries*k), make([]float32, 0, queries*k), make([]int64, queries)}
	for _, answer := range answers {
		for query, rows := range arrays.ToIDs(answer.GetScoredRowsByQuery()) {
			if query < queries {
				best.ScoredRows[query] += int64(rows)
			}
		}
	}
	found := make([]scored, 0, len(answers)*k)
	for query := range queries {
		found = found[:0]
		for _, answer := range answers {
			for at := 4 * query * k; at < 4*(query+1)*k; at += 4 {
				found = append(found, scored{binary.LittleEndian.Uint32(answer.RowIds[at:]),
					math.Float32frombits(binary.LittleEndian.Uint32(answer.Logits[at:]))})
			}
		}
		slices.SortFunc(found, func(a, b scored) int {
			return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(a.id, b.id))
		})
		for _, one := range found[:k] {
			best.IDs, best.Logits = append(best.IDs, one.id), append(best.Logits, one.logit)
		}
	}
	return best
}
